//! Claim.

use std::collections::HashSet;

use mq_core::{
    Claim, ClaimRequest, JobId, JobRecord, Result, StoreError, Timestamp, WakeCursor, ceil_millis,
    validate,
};

use crate::RedisStore;
use crate::codec::{Broken, StoredJob, record};
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

impl RedisStore {
    pub(super) async fn claim_jobs(&self, request: ClaimRequest) -> Result<Claim> {
        let limit = validate::claim(&request)?;
        // Taken before the call, so that a wake-up between it and the wait counts.
        let mut wake = self.shared.wakes.subscribed_cursor().await;
        let mut call = self.call(&script::CLAIM).repeat(Repeat::Safely);
        call.arg(&*request.queue)
            .arg(&*request.token)
            .number(ceil_millis(request.lock_for))
            .number(limit.into());
        let mut asked = HashSet::with_capacity(request.names.len());
        for name in request.names.iter().filter(|name| asked.insert(*name)) {
            call.arg(&**name);
        }
        let mut answer = self.run_list(&call).await?;
        let now = Timestamp::saturating_from_millis(answer.number()?);
        let next_run_at = answer.optional_number()?;
        if answer.number()? == 1 {
            // What was woken between the two tries must not be lost.
            wake = 0;
        }
        let claimed = Claimed::read(&mut answer)?;
        let mut jobs = Vec::with_capacity(claimed.len());
        for place in 0..claimed.len() {
            match claimed.record(place) {
                Ok(job) => jobs.push(job),
                Err(broken) => {
                    let id = &claimed.ids[place];
                    self.fail_broken(id, &request, broken).await?;
                    // Sound jobs may wait behind it: the next wait returns at once.
                    wake = 0;
                }
            }
        }
        Ok(Claim {
            jobs,
            next_run_at: next_run_at.map(Timestamp::saturating_from_millis),
            now,
            wake: WakeCursor(wake),
        })
    }

    /// Fails a job that was claimed and cannot be read, so that its queue goes on.
    async fn fail_broken(&self, id: &JobId, request: &ClaimRequest, broken: Broken) -> Result<()> {
        tracing::error!(job = %id, queue = %request.queue, "a stored job cannot be read: {}", broken.0);
        let mut call = self.call(&script::ACK);
        call.arg(&**id)
            .arg(&*request.token)
            .arg("b")
            .arg(format!("its stored record cannot be read: {}", broken.0));
        match self.run_list(&call).await {
            Ok(_) => Ok(()),
            // The lock expires, and the job counts a stall.
            Err(StoreError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The texts of claimed jobs.
struct Claimed {
    ids: Vec<JobId>,
    jobs: Vec<Vec<u8>>,
    lives: Vec<Vec<u8>>,
    /// Progress and flow of jobs that were touched before, by place.
    extras: Vec<Extra>,
}

#[derive(Clone, Default)]
struct Extra {
    progress: Option<Vec<u8>>,
    flow: Option<Vec<u8>>,
}

impl Claimed {
    fn read(answer: &mut Reply) -> Result<Self> {
        let mut ids = answer.list()?;
        let mut jobs = answer.list()?;
        let mut lives = answer.list()?;
        let mut extras = answer.list()?;
        let count = ids.len();
        let mut claimed = Self {
            ids: Vec::with_capacity(count),
            jobs: Vec::with_capacity(count),
            lives: Vec::with_capacity(count),
            extras: vec![Extra::default(); if extras.is_empty() { 0 } else { count }],
        };
        for _ in 0..count {
            claimed.ids.push(ids.text()?.into());
            claimed
                .jobs
                .push(jobs.optional_bytes()?.unwrap_or_default());
            claimed.lives.push(lives.bytes()?);
        }
        while !extras.is_empty() {
            let place = extras.number()? as usize;
            let extra = Extra {
                progress: extras.optional_bytes()?,
                flow: extras.optional_bytes()?,
            };
            if let Some(slot) = claimed.extras.get_mut(place.saturating_sub(1)) {
                *slot = extra;
            }
        }
        Ok(claimed)
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn record(&self, place: usize) -> Result<JobRecord, Broken> {
        let extra = self.extras.get(place);
        let stored = StoredJob {
            job: &self.jobs[place],
            live: Some(&self.lives[place]),
            end: None,
            progress: extra.and_then(|extra| extra.progress.as_deref()),
            flow: extra.and_then(|extra| extra.flow.as_deref()),
        };
        record(&self.ids[place], stored).map(|(record, _)| record)
    }
}

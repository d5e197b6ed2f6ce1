//! Enqueue: where jobs come in.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{
    EnqueueOps, Enqueued, JobId, NewJob, Result, StoreError, When, async_trait, ceil_millis,
};

use crate::RedisStore;
use crate::codec::{NONE, Writer, job_body};
use crate::connection::{Call, Repeat};
use crate::script;

/// How often an id is drawn again when it turns out to be taken.
const REDRAWS: u32 = 5;
/// How many bytes of jobs one call carries; a larger job goes alone.
const PAGE_BYTES: usize = 512 * 1024;

/// What a script must know of a request besides the job's record.
mod bit {
    pub(super) const DRAWN: u8 = 1;
    pub(super) const AT: u8 = 2;
    pub(super) const KEYED: u8 = 4;
    pub(super) const REPLACES: u8 = 8;
    pub(super) const EXTENDS: u8 = 16;
}

/// A request with its id.
struct Request {
    job: NewJob,
    id: JobId,
    /// How often the id was drawn: 0 if it was given.
    draws: u32,
    nonce: u64,
}

#[async_trait]
impl EnqueueOps for RedisStore {
    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        validate::enqueue_many(&jobs, self.limits())?;
        let mut requests = self.requests(jobs)?;
        let mut answers = Vec::with_capacity(requests.len());
        while answers.len() < requests.len() {
            let begun = answers.len();
            let mut call = self.call(&script::ENQUEUE).repeat(Repeat::Safely);
            let page = fill_page(&mut call, &requests[begun..]);
            let handled = self
                .enqueue_page(&call, &requests[begun..begun + page], &mut answers)
                .await?;
            if handled < page {
                self.draw_again(&mut requests[begun + handled])?;
            }
        }
        Ok(answers)
    }
}

impl RedisStore {
    fn requests(&self, jobs: Vec<NewJob>) -> Result<Vec<Request>> {
        let nonces = self.draw_nonces(jobs.len());
        let request = |(place, mut job): (usize, NewJob)| {
            let (id, draws) = match job.id.take() {
                Some(id) => (id, 0),
                None => (self.draw_id()?, 1),
            };
            let nonce = nonces.wrapping_add(place as u64);
            Ok(Request {
                job,
                id,
                draws,
                nonce,
            })
        };
        jobs.into_iter().enumerate().map(request).collect()
    }

    fn draw_id(&self) -> Result<JobId> {
        let id = (self.shared.draw_id)();
        validate::job_id(&id)?;
        Ok(id)
    }

    /// Draws another id for a request whose first one is taken.
    fn draw_again(&self, request: &mut Request) -> Result<()> {
        if request.draws > REDRAWS {
            return Err(StoreError::IdsTaken {
                tries: request.draws,
                last: request.id.clone(),
            });
        }
        request.id = self.draw_id().map_err(|error| StoreError::Backend {
            // No refusal: earlier items of the batch may be written.
            message: format!("the id generator is defective: {error}"),
            source: None,
        })?;
        request.draws += 1;
        Ok(())
    }

    /// Enqueues a page, and says how many of it were handled before one whose
    /// drawn id is taken.
    async fn enqueue_page(
        &self,
        call: &Call,
        page: &[Request],
        answers: &mut Vec<Enqueued>,
    ) -> Result<usize> {
        let mut answer = self.run_list(call).await?;
        let handled = (answer.number()? as usize).min(page.len());
        let begun = answers.len();
        answers.extend(page[..handled].iter().map(|request| Enqueued {
            id: request.id.clone(),
            name: request.job.spec.name.clone(),
            duplicate: false,
        }));
        let mut exceptions = answer.list()?;
        while !exceptions.is_empty() {
            let place = exceptions.number()? as usize;
            let (id, name) = (exceptions.text()?, exceptions.text()?);
            if let Some(answer) = answers.get_mut((begun + place).saturating_sub(1)) {
                *answer = Enqueued {
                    id: id.into(),
                    name: name.into(),
                    duplicate: true,
                };
            }
        }
        Ok(handled)
    }
}

/// Adds requests to a call until the page is full, and says how many.
fn fill_page(call: &mut Call, requests: &[Request]) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for request in requests.iter().take(MAX_BATCH as usize) {
        let body = job_body(&request.job, request.nonce);
        bytes += request.id.len() + body.len();
        if count > 0 && bytes > PAGE_BYTES {
            break;
        }
        call.arg(&*request.id).arg(meta(request)).arg(body);
        count += 1;
    }
    count
}

fn meta(request: &Request) -> Vec<u8> {
    let mut writer = Writer::with_capacity(13);
    let mut bits = if request.draws > 0 { bit::DRAWN } else { 0 };
    let instant = match request.job.when {
        When::After(delay) => ceil_millis(delay),
        When::At(instant) => {
            bits |= bit::AT;
            instant.as_millis()
        }
    };
    let mut ttl = NONE;
    if let Some(dedupe) = &request.job.dedupe {
        bits |= bit::KEYED;
        if dedupe.replace {
            bits |= bit::REPLACES;
        }
        if dedupe.extend {
            bits |= bit::EXTENDS;
        }
        ttl = dedupe.ttl.map_or(NONE, ceil_millis);
    }
    writer.u8(bits);
    writer.u48(instant);
    writer.u48(ttl);
    writer.finish()
}

//! Acks.

use std::collections::HashSet;

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{Ack, AckOutcome, Acked, RawJson, Result, StoreError, ceil_millis};

use super::lock_answer;
use crate::RedisStore;
use crate::connection::Call;
use crate::script;

/// How many bytes of exits one call carries; a larger one goes alone.
const PAGE_BYTES: usize = 512 * 1024;

impl RedisStore {
    pub(super) async fn ack_jobs(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
        let mut answers = self.refused_acks(&acks);
        let places: Vec<usize> = (0..acks.len())
            .filter(|place| answers[*place].is_none())
            .collect();
        let mut begun = 0;
        while begun < places.len() {
            begun += self.ack_page(&acks, &places[begun..], &mut answers).await?;
        }
        let missing = |answer: Option<_>| {
            answer.unwrap_or_else(|| {
                Err(StoreError::Backend {
                    message: "script ack gave too few answers".into(),
                    source: None,
                })
            })
        };
        Ok(answers.into_iter().map(missing).collect())
    }

    /// What is wrong with each ack that is refused whatever the state.
    fn refused_acks(&self, acks: &[Ack]) -> Vec<Option<Result<Acked>>> {
        let mut seen = HashSet::with_capacity(acks.len());
        let refused = |ack: &Ack| {
            let first = acks.len() == 1 || seen.insert(ack.lock.id.clone());
            if let Err(error) = validate::ack(ack, self.limits()) {
                return Some(Err(error.into()));
            }
            (!first).then(|| {
                Err(StoreError::LockLost {
                    id: ack.lock.id.clone(),
                })
            })
        };
        acks.iter().map(refused).collect()
    }

    /// Sends a page of the acks at these places, and says how many it was.
    async fn ack_page(
        &self,
        acks: &[Ack],
        places: &[usize],
        answers: &mut [Option<Result<Acked>>],
    ) -> Result<usize> {
        let mut call = self.call(&script::ACK);
        let mut sent = Vec::with_capacity(places.len().min(MAX_BATCH as usize));
        let mut fan_outs = Vec::new();
        let (mut handled, mut bytes) = (0, 0);
        for place in places.iter().take(MAX_BATCH as usize) {
            let ack = &acks[*place];
            if let AckOutcome::FanOut { .. } = ack.outcome {
                fan_outs.push(*place);
                handled += 1;
                continue;
            }
            bytes += exit(&ack.outcome).map_or(0, |exit| exit.get().len());
            if !sent.is_empty() && bytes > PAGE_BYTES {
                break;
            }
            add(&mut call, ack);
            sent.push(*place);
            handled += 1;
        }
        if !sent.is_empty() {
            let mut applied = self.run_list(&call).await?;
            for place in sent {
                let id = &acks[place].lock.id;
                let answer = lock_answer("ack", id, applied.next()?);
                answers[place] = Some(answer.map(|applied| Acked {
                    applied: applied == 1,
                }));
            }
        }
        for place in fan_outs {
            answers[place] = Some(self.fan_out(&acks[place]).await);
        }
        Ok(handled)
    }
}

fn exit(outcome: &AckOutcome) -> Option<&RawJson> {
    match outcome {
        AckOutcome::Complete { exit }
        | AckOutcome::Fail { exit }
        | AckOutcome::Retry { exit, .. } => exit.as_ref(),
        AckOutcome::Cancelled | AckOutcome::Snooze { .. } | AckOutcome::FanOut { .. } => None,
    }
}

fn add(call: &mut Call, ack: &Ack) {
    call.arg(&*ack.lock.id).arg(&*ack.lock.token);
    match &ack.outcome {
        AckOutcome::Complete { .. } => call.arg("c"),
        AckOutcome::Fail { .. } => call.arg("f"),
        AckOutcome::Cancelled | AckOutcome::FanOut { .. } => call.arg("x"),
        AckOutcome::Retry { delay, .. } => call.arg(format!("r{}", ceil_millis(*delay))),
        AckOutcome::Snooze { delay } => call.arg(format!("s{}", ceil_millis(*delay))),
    };
    call.arg(exit(&ack.outcome).map_or("", RawJson::get));
}

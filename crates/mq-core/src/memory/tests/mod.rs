//! What the contract cases cannot see.

use std::time::Duration;

use super::*;
use crate::id::LockToken;
use crate::json::RawJson;
use crate::record::{JobSpec, JobState, NewJob};
use crate::store::*;
use crate::time::ManualClock;

fn job(name: &str) -> NewJob {
    NewJob::new(JobSpec::new(name, "q", RawJson::null()))
}

fn claim(token: &LockToken) -> ClaimRequest {
    ClaimRequest {
        queue: "q".into(),
        names: ["a".into(), "b".into()].into(),
        token: token.clone(),
        lock_for: Duration::from_secs(30),
        limit: 10,
    }
}

#[tokio::test]
async fn a_job_goes_from_enqueue_through_claim_to_completion() {
    let store = MemoryStore::builder().time(ManualClock::default()).build();
    let ids = store
        .enqueue_many(vec![job("a"), job("b"), job("c")])
        .await
        .unwrap();
    let token = LockToken::random();
    let claimed = store.claim(claim(&token)).await.unwrap();
    let claimed: Vec<_> = claimed.jobs.iter().map(|job| job.id.clone()).collect();
    assert_eq!(claimed, [ids[0].id.clone(), ids[1].id.clone()]);
    let ack = Ack {
        lock: Lock {
            id: ids[0].id.clone(),
            token: token.clone(),
        },
        outcome: AckOutcome::Complete { exit: None },
    };
    assert!(store.ack(ack.clone()).await.unwrap().applied);
    assert!(!store.ack(ack).await.unwrap().applied);
    let again = store.claim(claim(&token)).await.unwrap();
    assert_eq!(again.jobs.len(), 1);
    assert_eq!(again.jobs[0].id, ids[1].id);
    let record = store.get_job(&ids[0].id).await.unwrap().unwrap();
    assert_eq!(record.state, JobState::Completed);
}

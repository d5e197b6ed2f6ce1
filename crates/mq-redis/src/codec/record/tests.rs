//! Records through the codec and back.

use std::time::Duration;

use mq_core::{Dedupe, NewJob};

use super::*;
use crate::codec::job_body;

fn stored(job: &NewJob) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [7_u64, 1_000, 1_000] {
        bytes.extend_from_slice(&number.to_be_bytes()[2..]);
    }
    bytes.extend(job_body(job, 5));
    bytes
}

fn read(bytes: &[u8]) -> Result<JobRecord, Broken> {
    let stored = StoredJob {
        job: bytes,
        ..StoredJob::default()
    };
    record(&"id".into(), stored).map(|(record, _)| record)
}

fn full() -> NewJob {
    let mut spec = JobSpec::new("näme", "q ueue", json("{\"a\" :1e400}").unwrap());
    spec.metadata.insert("key".into(), "value".into());
    spec.metadata.insert("empty".into(), String::new());
    spec.priority = i32::MIN;
    spec.attempts_max = u32::MAX;
    spec.backoff = Some(Backoff::Exponential {
        delay: Duration::from_millis(3),
        factor: 1.5,
        max: Some(Duration::from_secs(9)),
        jitter: Some(0.25),
    });
    spec.keep = Some(Keep {
        completed: Some(Retention::count(0)),
        failed: None,
        cancelled: Some(Retention {
            count: Some(9),
            age: Some(Duration::from_millis(1)),
        }),
    });
    spec.timeout = Some(Duration::from_millis(77));
    let mut job = NewJob::new(spec);
    job.dedupe = Some(Dedupe::key("key"));
    job.trace = Some(TraceContext {
        trace_id: "t".into(),
        span_id: String::new(),
        sampled: true,
        delayed: false,
    });
    job.parent = Some(ParentEnvelope {
        flow_name: "flow".into(),
        flow_id: "f".into(),
        manifest: "m".into(),
        child_key: "c".into(),
        parent_store: "s".into(),
        depth: 3,
    });
    job
}

#[test]
fn a_job_with_everything_comes_back_as_it_was() {
    let job = full();
    let record = read(&stored(&job)).unwrap();
    assert_eq!(record.spec, job.spec);
    assert_eq!(record.parent, job.parent);
    assert_eq!(record.trace, job.trace);
    assert_eq!(record.dedupe_key, job.dedupe.map(|dedupe| dedupe.key));
}

#[test]
fn an_empty_keep_is_not_no_keep() {
    for keep in [None, Some(Keep::default())] {
        let mut job = NewJob::new(JobSpec::new("n", "q", RawJson::null()));
        job.spec.keep = keep;
        assert_eq!(read(&stored(&job)).unwrap().spec.keep, keep);
    }
}

#[test]
fn a_record_that_was_cut_short_is_broken_and_no_panic() {
    let bytes = stored(&full());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "{length} bytes");
    }
}

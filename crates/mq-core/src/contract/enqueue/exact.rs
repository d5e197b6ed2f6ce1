//! Nothing is lost, rounded or reformatted on the way in and out.

use std::time::Duration;

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, ack, job, json, lock, ms, request, request_for};
use crate::contract::steps::ids;
use crate::id::JobId;
use crate::record::{
    AttemptOutcome, Backoff, Cadence, Dedupe, JobRecord, JobState, Keep, NewJob, NewSchedule,
    ParentEnvelope, Retention, TraceContext,
};
use crate::store::{AckOutcome, ListFilter, Tick};
use crate::time::{LONGEST, Timestamp};

cases! { __contract_enqueue_exact, enqueue::exact:
    payloads_come_back_byte_for_byte,
    exits_come_back_byte_for_byte,
    progress_comes_back_byte_for_byte,
    labels_come_back_as_they_went_in,
    numbers_and_durations_come_back_exactly,
    a_record_is_what_was_asked_for_and_nothing_else,
    a_record_is_the_same_by_whichever_way_it_came_in,
    a_record_is_the_same_by_whichever_way_it_is_read,
}

/// JSON that decoders and databases like to change.
fn texts() -> Vec<String> {
    let texts = [
        "null",
        "true",
        "0",
        "-0",
        "-0.0",
        "1.0",
        "1e400",
        "1E+2",
        "12345678901234567890",
        "123456789012345678901234567890.123456789012345678901234567890",
        "[]",
        "{}",
        "[ 1,\n\t2 ]",
        r#"{"b":1,"a":2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"":{"":[]}}"#,
        r#"{ "spaced" : [ 1 , 2 ] }"#,
        r#""""#,
        r#""\u0000""#,
        r#"{"\u0000":"\u0000"}"#,
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\ud83e\udd80 \u00e9 \/ \b\f\n\r\t\\\"""#,
        "\"\u{1f980} \u{7f} \u{e9} \u{2028}\u{fffe}\u{ffff}\u{10ffff}\"",
        "\"' -- ; $$ %s {}\"",
        r#""e\u0301 é""#,
    ];
    let deepest = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let long = format!("\"{}\"", "x".repeat(100_000));
    texts
        .map(String::from)
        .into_iter()
        .chain([deepest, long])
        .collect()
}

/// Payloads are the same text in every answer that holds them.
async fn payloads_come_back_byte_for_byte(fx: Fixture) {
    let texts = texts();
    let jobs: Vec<_> = texts
        .iter()
        .map(|text| job().payload(text.as_str()))
        .collect();
    let ids = fx.enqueue_all(jobs).await;
    let claimed = fx.claim(250).await.jobs;
    let listed = fx.store.list(ListFilter::default()).await.must().items;
    assert_eq!((claimed.len(), listed.len()), (texts.len(), texts.len()));
    for ((id, text), claimed) in ids.iter().zip(&texts).zip(claimed) {
        assert_eq!(fx.job(id).await.spec.payload.get(), text, "from get_job");
        assert_eq!(claimed.spec.payload.get(), text, "from claim");
        let listed = listed
            .iter()
            .find(|job| job.id == *id)
            .map(|job| job.spec.payload.get());
        assert_eq!(listed, Some(text.as_str()), "from list");
    }
}

/// Exits are the same text in the record and in the ledger.
async fn exits_come_back_byte_for_byte(fx: Fixture) {
    let texts = texts();
    let ids = fx.enqueue_all(vec![job(); texts.len()]).await;
    let locks = fx.claim_locks(request(250)).await;
    let acks = locks
        .iter()
        .zip(&texts)
        .enumerate()
        .map(|(number, (lock, text))| {
            let exit = Some(json(text.as_str()));
            let end = match number % 2 {
                0 => AckOutcome::Complete { exit },
                _ => AckOutcome::Fail { exit },
            };
            ack(lock, end)
        });
    for answer in fx.store.ack_many(acks.collect()).await.must() {
        assert!(answer.must().applied, "each ack applies");
    }
    for (id, text) in ids.iter().zip(&texts) {
        assert_eq!(
            fx.job(id).await.exit,
            Some(json(text.as_str())),
            "in the record"
        );
        assert_eq!(
            fx.ledger(id).await[0].exit,
            Some(json(text.as_str())),
            "in the ledger"
        );
    }
}

/// A report of progress is the same text when it is read.
async fn progress_comes_back_byte_for_byte(fx: Fixture) {
    let lock = fx.start(job()).await;
    for text in texts() {
        let progress = json(text.as_str());
        fx.store
            .set_progress(lock.clone(), progress.clone())
            .await
            .must();
        assert_eq!(fx.job(&lock.id).await.progress, Some(progress));
    }
}

/// Keys and values of metadata are any text but NUL.
async fn labels_come_back_as_they_went_in(fx: Fixture) {
    let texts = [
        "",
        " ",
        "a.b[0]",
        "\u{1}\u{1f}",
        "\u{1f980}",
        "\"quoted\"",
        "'",
        "\\",
        "\n",
        "{}",
        "null",
        "1e400",
    ];
    let mut labelled = job();
    for text in texts {
        labelled = labelled.label(&format!("key {text}"), text);
    }
    let id = fx.enqueue(labelled.clone()).await;
    assert_eq!(fx.job(&id).await.spec.metadata, labelled.spec.metadata);
    for text in texts {
        let metadata = [(format!("key {text}"), text.to_string())].into();
        let filter = ListFilter {
            metadata,
            ..ListFilter::default()
        };
        let found = fx.store.list(filter).await.must().items;
        assert_eq!(ids(&found), [id.clone()], "by label {text:?}");
    }
}

/// Policies at the ends of their ranges are not rounded.
async fn numbers_and_durations_come_back_exactly(fx: Fixture) {
    let mut extreme = job().priority(i32::MIN).at(Timestamp::MAX);
    extreme.spec.attempts_max = u32::MAX;
    extreme.spec.timeout = Some(LONGEST);
    extreme.spec.backoff = Some(Backoff::Exponential {
        delay: LONGEST,
        factor: 1.000_000_000_000_000_2,
        max: Some(ms(1)),
        jitter: Some(0.1),
    });
    extreme.spec.keep = Some(Keep {
        completed: Some(Retention {
            count: Some(u32::MAX),
            age: Some(LONGEST),
        }),
        failed: Some(Retention {
            count: Some(0),
            age: Some(Duration::ZERO),
        }),
        cancelled: None,
    });
    let id = fx.enqueue(extreme.clone()).await;
    let record = fx.job(&id).await;
    assert_eq!((record.spec, record.run_at), (extreme.spec, Timestamp::MAX));
}

/// A job with everything that a producer can say.
fn full(id: &str) -> NewJob {
    let mut full = job()
        .id(id)
        .payload(r#"{"n": 1e400}"#)
        .label("tenant", "a")
        .label("é", "")
        .priority(-3);
    full.spec.attempts_max = 4;
    full.spec.backoff = Some(
        Backoff::exponential(ms(100))
            .max(ms(5_000))
            .factor(3.5)
            .jitter(0.25),
    );
    full.spec.keep = Some(Keep {
        completed: Some(Retention {
            count: Some(10),
            age: Some(ms(1_000)),
        }),
        failed: Some(Retention::age(ms(5))),
        cancelled: Some(Retention::count(0)),
    });
    full.spec.timeout = Some(ms(1_500));
    full.dedupe = Some(
        Dedupe::key(format!("key of {id}"))
            .ttl(ms(50))
            .extend()
            .replace(),
    );
    full.trace = Some(TraceContext {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
        span_id: "00f067aa0ba902b7".into(),
        sampled: true,
        delayed: false,
    });
    full.parent = Some(ParentEnvelope {
        flow_name: "digest".into(),
        flow_id: "a parent".into(),
        manifest: "a token".into(),
        child_key: "a child".into(),
        parent_store: "elsewhere".into(),
        depth: 2,
    });
    full
}

/// The record that a job enqueued now begins with.
fn fresh(new: &NewJob, now: Timestamp) -> JobRecord {
    let run_at = new.when.resolve(now);
    JobRecord {
        id: new.id.clone().expect("the case chooses the id"),
        spec: new.spec.clone(),
        state: if run_at > now {
            JobState::Delayed
        } else {
            JobState::Waiting
        },
        attempts_made: 0,
        attempts_recorded: 0,
        stalled_count: 0,
        cancel_requested: false,
        dedupe_key: new.dedupe.as_ref().map(|dedupe| dedupe.key.clone()),
        trace: new.trace.clone(),
        parent: new.parent.clone(),
        flow: None,
        run_at,
        enqueued_at: now,
        processed_at: None,
        finished_at: None,
        exit: None,
        failed_reason: None,
        progress: None,
    }
}

/// A new record holds what its producer said, the store's time, and no more.
async fn a_record_is_what_was_asked_for_and_nothing_else(fx: Fixture) {
    let usual = job().id("usual");
    fx.enqueue(usual.clone()).await;
    assert_eq!(fx.job(&"usual".into()).await, fresh(&usual, fx.now()));
    let full = full("full").delay(20);
    fx.enqueue(full.clone()).await;
    assert_eq!(fx.job(&"full".into()).await, fresh(&full, fx.now()));
}

/// Alone, in a batch or from a schedule, a job becomes the same record.
async fn a_record_is_the_same_by_whichever_way_it_came_in(fx: Fixture) {
    fx.enqueue(full("alone")).await;
    fx.enqueue_all(vec![job(), full("in a batch"), job()]).await;
    let slot = fx.now();
    let schedule = NewSchedule {
        key: "key".into(),
        cadence: Cadence::Every(ms(60_000)),
        spec: job().spec,
        group: None,
        next_run_at: slot,
    };
    let version = fx.store.upsert_schedule(schedule).await.must().version;
    let mut of_a_slot = full("of a slot");
    of_a_slot.dedupe = None;
    let tick = Tick {
        key: "key".into(),
        version,
        expected: slot,
        next: fx.later(60_000),
        job: Some(of_a_slot.clone()),
    };
    assert!(fx.store.tick_schedule(tick).await.must());
    for made in [full("alone"), full("in a batch"), of_a_slot] {
        let id = made.id.clone().expect("an id");
        assert_eq!(fx.job(&id).await, fresh(&made, fx.now()));
    }
}

/// From claim, from a read and from every listing comes the same record, in
/// each state of its life.
async fn a_record_is_the_same_by_whichever_way_it_is_read(fx: Fixture) {
    let id = JobId::from("a");
    let named = ["job"];
    fx.enqueue(full("a").delay(10)).await;
    same_everywhere(&fx, &id, JobState::Delayed).await;
    fx.advance(10);
    for end in [
        AckOutcome::Retry {
            delay: ms(0),
            exit: Some(json("1")),
        },
        AckOutcome::Snooze { delay: ms(5) },
        AckOutcome::Fail {
            exit: Some(json("2")),
        },
    ] {
        let request = request_for(&named, 1);
        let token = request.token.clone();
        let claimed = fx.claim_with(request).await.jobs;
        assert_eq!(claimed.len(), 1, "the job is claimed");
        assert_eq!(
            same_everywhere(&fx, &id, JobState::Active).await,
            claimed[0]
        );
        let held = lock(&id, token);
        fx.store
            .set_progress(held.clone(), json("0.50"))
            .await
            .must();
        fx.advance(3);
        fx.ack(&held, end).await;
        let state = fx.state(&id).await;
        same_everywhere(&fx, &id, state).await;
        fx.advance(5);
    }
    let last = same_everywhere(&fx, &id, JobState::Failed).await;
    let expected = JobRecord {
        state: JobState::Failed,
        attempts_made: 2,
        attempts_recorded: 3,
        exit: Some(json("2")),
        progress: Some(json("0.50")),
        run_at: last.run_at,
        processed_at: last.processed_at,
        finished_at: last.processed_at.map(|began| began.saturating_add(ms(3))),
        enqueued_at: last.enqueued_at,
        ..fresh(&full("a"), fx.now())
    };
    assert_eq!(last, expected);
    use AttemptOutcome::{Failed, Retried, Snoozed};
    assert_eq!(fx.outcomes(&id).await, [Retried, Snoozed, Failed]);
}

/// Checks that all reads agree on a job, and answers what they say.
async fn same_everywhere(fx: &Fixture, id: &JobId, state: JobState) -> JobRecord {
    let record = fx.job(id).await;
    assert_eq!(record.state, state);
    let second = fx.second().await;
    assert_eq!(second.job(id).await, record, "from another handle");
    let any = ListFilter::default;
    let filters = [
        any(),
        ListFilter {
            queue: Some(record.spec.queue.clone()),
            ..any()
        },
        ListFilter {
            name: Some(record.spec.name.clone()),
            ..any()
        },
        ListFilter {
            states: Some(vec![state]),
            ..any()
        },
        ListFilter {
            metadata: record.spec.metadata.clone(),
            ..any()
        },
    ];
    for filter in filters {
        let page = fx.store.list(filter.clone()).await.must();
        assert_eq!(page.items, [record.clone()], "from {filter:?}");
    }
    record
}

//! Random sequences of operations against the in-memory store, and against a
//! naive one that is written from the contract alone: all answers and all that
//! can be read must agree, and no wake-up may be lost.
//!
//! The sequences are the same on each run. `MQ_MODEL_SEQUENCES` says how many.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answer;
mod ask;
mod naive;
mod op;
mod scene;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mq_core::{HistoryCeiling, JobId, ManualClock, MemoryStore, Timestamp};
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use scene::Scene;

const SEQUENCES: u32 = 300;

fn sequences() -> u32 {
    match std::env::var("MQ_MODEL_SEQUENCES") {
        Ok(number) => number.parse().expect("MQ_MODEL_SEQUENCES is a number"),
        Err(_) => SEQUENCES,
    }
}

/// The beginning of time, an ordinary day, and shortly before the end.
fn start() -> impl Strategy<Value = Timestamp> {
    let day = Timestamp::from_millis(1_735_689_600_000).unwrap();
    let late = Timestamp::MAX.saturating_sub(Duration::from_secs(100));
    prop_oneof![1 => Just(Timestamp::MIN), 4 => Just(day), 1 => Just(late)]
}

/// A store that draws `auto0`, `auto1` and so on.
fn store(clock: &ManualClock, ceiling: Option<HistoryCeiling>) -> MemoryStore {
    let drawn = AtomicU64::new(0);
    let draw = move || JobId::from(format!("auto{}", drawn.fetch_add(1, Ordering::Relaxed)));
    let mut builder = MemoryStore::builder()
        .time(clock.clone())
        .id_generator(Arc::new(draw));
    if let Some(ceiling) = ceiling {
        builder = builder.history_ceiling(ceiling);
    }
    builder.build()
}

#[test]
fn the_memory_store_does_what_a_naive_one_does() {
    let config = ProptestConfig {
        cases: sequences(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let ceiling = option::of((0..60_000_u64).prop_map(Duration::from_millis));
    let sequence = (start(), ceiling, prop::collection::vec(op::op(), 1..80));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let played = TestRunner::new_with_rng(config, rng).run(&sequence, |(start, ceiling, ops)| {
        let (clock, ceiling) = (ManualClock::new(start), ceiling.map(HistoryCeiling::all));
        let mut scene = Scene::new(store(&clock, ceiling), clock, start, ceiling);
        runtime.block_on(scene.play(ops)).unwrap();
        Ok(())
    });
    if let Err(failure) = played {
        panic!("{failure}");
    }
}

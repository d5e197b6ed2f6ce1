//! Random sequences of operations, run on a store and on a model of one.
//!
//! The model is written from the contract alone, with plain lists that are
//! searched and sorted each time: slow, and too simple to be wrong in the same
//! places. The in-memory store runs along, too. All answers and all that can be
//! read must agree, and no wake-up may be lost. Whole walks, drained sweeps and
//! sets are compared, never single pages.
//!
//! ```no_run
//! # struct Factory;
//! # #[mq_core::async_trait]
//! # impl mq_core::contract::StoreFactory for Factory {
//! #     async fn open(&self, _: mq_core::contract::StoreOptions) -> mq_core::contract::Opened {
//! #         unreachable!()
//! #     }
//! #     fn capabilities(&self) -> &[mq_core::contract::Capability] {
//! #         &[]
//! #     }
//! # }
//! # let factory = Factory;
//! use mq_testkit::model;
//!
//! model::check(&factory, model::sequences(500));
//! ```
//!
//! A sequence that fails is shrunk to a minimal one, and shown with its seed.
//! Sequence number n of a run has the seed `MQ_MODEL_SEED` + n, so that
//! `MQ_MODEL_SEED=<seed> MQ_MODEL_SEQUENCES=1` runs that one again. Without
//! `MQ_MODEL_SEED` the first seed is 0: each run is the same.
//!
//! # What a factory has to give
//!
//! Each sequence opens a store of its own, and a second handle on it. They run
//! one after the other, all on one runtime, and both handles are dropped
//! before the next store is opened. Where a fresh store is costly, a factory may
//! therefore hand out the same schema or key prefix each time, emptied.
//!
//! A factory whose [`patience`](StoreFactory::patience) is zero promises that a
//! wait is over as soon as the call that ends it has returned. Then it is
//! also an error if a wait ends for nothing.

mod answer;
mod call;
mod draw;
mod flow;
mod known;
mod naive;
mod op;
mod scene;
mod side;
mod wait;

use std::env;
use std::fmt::{Debug, Write};
use std::time::Duration;

use mq_core::contract::StoreFactory;
use mq_core::{HistoryCeiling, Timestamp};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use proptest::{collection, option, prop_oneof, strategy::Just};

use self::op::Step;
use self::scene::Scene;

/// The longest sequence.
const MOST_STEPS: usize = 80;

/// How many runs the search for a minimal sequence may take.
const MOST_SHRINKS: u32 = 4_000;

/// How many sequences to run: `MQ_MODEL_SEQUENCES`, or `usual` if it is not set.
///
/// # Panics
/// If `MQ_MODEL_SEQUENCES` is not a number.
pub fn sequences(usual: u32) -> u32 {
    from_env("MQ_MODEL_SEQUENCES").unwrap_or(usual)
}

/// Runs as many sequences, each against a store that the factory opens.
///
/// # Panics
/// If the store's answers, or what can be read from it, differ from the
/// model's; the message has the minimal sequence and its seed.
pub fn check(factory: &dyn StoreFactory, sequences: u32) {
    let first: u64 = from_env("MQ_MODEL_SEED").unwrap_or(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime to run the sequences on");
    for seed in (first..).take(sequences as usize) {
        let played = runner(seed).run(&sequence(), |sequence| {
            let played = runtime.block_on(async {
                let mut scene = Scene::open(factory, sequence.start, sequence.ceiling).await;
                scene.play(sequence.steps).await
            });
            played.map_err(TestCaseError::fail)
        });
        match played {
            Ok(()) => {}
            Err(TestError::Fail(reason, minimal)) => {
                panic!("{}", report(seed, reason.message(), &minimal));
            }
            Err(TestError::Abort(reason)) => panic!("seed {seed} was given up: {reason}"),
        }
    }
}

fn from_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} is {text:?}, which is not a number"),
    }
}

fn runner(seed: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        max_shrink_iters: MOST_SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[derive(Clone, Debug)]
struct Sequence {
    start: Timestamp,
    ceiling: Option<HistoryCeiling>,
    steps: Vec<Step>,
}

/// The beginning of time, an ordinary day, and shortly before the end.
fn start() -> impl Strategy<Value = Timestamp> {
    let day = Timestamp::saturating_from_millis(1_735_689_600_000);
    let late = Timestamp::MAX.saturating_sub(Duration::from_secs(100));
    prop_oneof![1 => Just(Timestamp::MIN), 4 => Just(day), 1 => Just(late)]
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let ceiling = option::of((0..60_000_u64).prop_map(Duration::from_millis));
    let steps = collection::vec(draw::step(), 1..MOST_STEPS);
    (start(), ceiling, steps).prop_map(|(start, ceiling, steps)| Sequence {
        start,
        ceiling: ceiling.map(HistoryCeiling::all),
        steps,
    })
}

fn report(seed: u64, reason: &str, minimal: &Sequence) -> String {
    let mut text = format!(
        "{reason}\n\nafter the minimal sequence of seed {seed} \
         (MQ_MODEL_SEED={seed} MQ_MODEL_SEQUENCES=1 runs it again), \
         from {:?} on, history ceiling {:?}:\n",
        minimal.start, minimal.ceiling
    );
    for step in &minimal.steps {
        line(&mut text, step);
    }
    text
}

fn line(text: &mut String, step: &dyn Debug) {
    writeln!(text, "  {step:?}").expect("text can be written to memory");
}

//! The jobs that the tests run.

use std::time::Duration;

use mq_core::{Backoff, DefaultStore, Failure, Job, JobDefaults};
use serde::{Deserialize, Serialize};

/// A job that says what its handler is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub number: u32,
}

impl Job for Work {
    const NAME: &'static str = "work";
    type Store = DefaultStore;
    type Output = u32;
    type Error = Failure;
}

/// A job with three attempts and an error of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fragile {
    pub number: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Broken {
    Mendable(u32),
    Hopeless,
}

impl Job for Fragile {
    const NAME: &'static str = "fragile";
    const QUEUE: &'static str = "fragile";
    type Store = DefaultStore;
    type Output = u32;
    type Error = Broken;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 3,
            backoff: Some(Backoff::exponential(Duration::from_secs(10))),
            ..JobDefaults::default()
        }
    }

    fn retryable(error: &Broken) -> bool {
        *error != Broken::Hopeless
    }
}

/// A job with a time-out of one second, and two attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    pub number: u32,
}

impl Job for Timed {
    const NAME: &'static str = "timed";
    type Store = DefaultStore;
    type Output = u32;
    type Error = Failure;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 2,
            timeout: Some(Duration::from_secs(1)),
            ..JobDefaults::default()
        }
    }
}

/// A job whose result is text of any length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Write {
    pub length: usize,
}

impl Job for Write {
    const NAME: &'static str = "write";
    type Store = DefaultStore;
    type Output = String;
    type Error = String;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 3,
            ..JobDefaults::default()
        }
    }
}

/// A job that works its way through steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    pub count: u32,
}

impl Job for Steps {
    const NAME: &'static str = "steps";
    type Store = DefaultStore;
    type Output = Vec<u32>;
    type Error = Failure;

    fn defaults() -> JobDefaults {
        JobDefaults {
            attempts: 5,
            ..JobDefaults::default()
        }
    }
}

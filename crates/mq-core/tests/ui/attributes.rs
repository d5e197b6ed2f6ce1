use mq_core::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", retries = 3, que = "email", timeout = "30s")]
struct Unknown;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", attempts = 2)]
#[job(attempts = 3)]
struct Twice;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", attempts = 0)]
struct NoAttempts;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", attempts = "three")]
struct AttemptsInWords;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", attempts = 4294967296)]
struct TooManyAttempts;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", priority = 2147483648)]
struct TooUrgent;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", priority = high)]
struct PriorityInWords;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", output = "u64")]
struct OutputInQuotes;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", key = |job| job.id())]
struct KeyAsClosure;

#[derive(Serialize, Deserialize, Job)]
#[job(name)]
struct NoValue;

fn main() {}

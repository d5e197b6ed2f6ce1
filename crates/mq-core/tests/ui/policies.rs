use mq_core::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", timeout = "half an hour")]
struct NoDuration;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", timeout = 30)]
struct NoUnit;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", timeout = "0s")]
struct NoTime;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", timeout = "9000 years")]
struct TooLong;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = linear("5s"))]
struct UnknownBackoff;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = exponential)]
struct NoDelay;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = exponential())]
struct EmptyBackoff;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = fixed("5s", max = "1m"))]
struct FixedWithMax;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = exponential("1s", cap = "5m"))]
struct UnknownSetting;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = exponential("1s", factor = 0.5))]
struct Shrinking;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", backoff = exponential("1s", jitter = 10))]
struct JitterInPercent;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", keep)]
struct KeepWhat;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", keep = 1.5)]
struct KeepFraction;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", keep(succeeded = "1d"))]
struct UnknownState;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", keep(failed(days = 30)))]
struct UnknownRetention;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", keep(failed = "1d", failed = "2d"))]
struct KeepTwice;

fn main() {}

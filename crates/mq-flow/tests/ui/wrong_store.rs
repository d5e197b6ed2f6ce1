//! A flow with a store of another name.

use mq_core::{Failure, HandlerError, Job, StoreHandle, StoreName};
use mq_flow::{ChildResults, Children, Flow, FlowWorker};
use mq_worker::{JobContext, WorkerBuilder};
use serde::{Deserialize, Serialize};

struct Durable;
impl StoreName for Durable {
    const NAME: &'static str = "durable";
}

struct Ephemeral;
impl StoreName for Ephemeral {
    const NAME: &'static str = "ephemeral";
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-digest", store = Durable)]
struct SendDigest;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-email", store = Ephemeral)]
struct SendEmail;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "archive", store = Durable)]
struct Archive;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "send-sms", store = Ephemeral)]
struct SendSms;

struct Other;
impl StoreName for Other {
    const NAME: &'static str = "other";
}

struct DailyDigest;
impl Flow for DailyDigest {
    const NAME: &'static str = "daily-digest";
    type Parent = SendDigest;
    type Children = (SendEmail, Archive);

    async fn fan_out(
        &self,
        _: &SendDigest,
        _: &JobContext,
    ) -> Result<Children<Self>, HandlerError<Failure>> {
        Ok(Children::new().add("a", SendEmail).add("b", Archive))
    }

    async fn collect(
        &self,
        _: &SendDigest,
        _: ChildResults<Self>,
        _: &JobContext,
    ) -> Result<(), HandlerError<Failure>> {
        Ok(())
    }
}

fn register(
    worker: WorkerBuilder<Durable>,
    durable: StoreHandle<Durable>,
    other: StoreHandle<Other>,
) -> WorkerBuilder<Durable> {
    worker.flow(DailyDigest, (durable, other))
}

fn main() {}

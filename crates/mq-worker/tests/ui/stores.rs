//! Handlers of jobs that belong to another store.

use mq_core::{Failure, HandlerError, Job, StoreName};
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

#[derive(Serialize, Deserialize)]
struct SendEmail;
impl Job for SendEmail {
    const NAME: &'static str = "send-email";
    type Store = Ephemeral;
    type Output = ();
    type Error = Failure;
}

async fn send(_: SendEmail, _: JobContext) -> Result<(), HandlerError<Failure>> {
    Ok(())
}

fn register(builder: WorkerBuilder<Durable>) -> WorkerBuilder<Durable> {
    builder.register(send)
}

fn main() {}

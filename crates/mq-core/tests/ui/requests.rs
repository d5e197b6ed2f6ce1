use std::time::Duration;

use mq_core::client::ClientResult;
use mq_core::{Client, Job, Schedule, Schedules, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "local")]
struct Local;

async fn two_times(client: &Client, instant: Timestamp) -> ClientResult<()> {
    client.enqueue(Local).at(instant).delay(Duration::ZERO).await?;
    Ok(())
}

async fn no_cadence(client: &Client) -> ClientResult<()> {
    client.schedule("daily", Local).await?;
    Ok(())
}

fn undeclared_cadence() {
    let _ = Schedules::group("all").add(Schedule::new("daily", Local));
}

fn main() {}

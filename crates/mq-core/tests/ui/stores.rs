use mq_core::client::ClientResult;
use mq_core::{Client, Job, Schedule, Schedules, StoreName};
use serde::{Deserialize, Serialize};

struct Durable;
impl StoreName for Durable {
    const NAME: &'static str = "durable";
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "local")]
struct Local;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "precious", store = Durable)]
struct Precious;

async fn own_stores(client: &Client, durable: &Client<Durable>) -> ClientResult<()> {
    client.enqueue(Local).await?;
    durable.enqueue(Precious).await?;
    Ok(())
}

async fn enqueue(client: &Client) -> ClientResult<()> {
    client.enqueue(Precious).await?;
    Ok(())
}

async fn enqueue_many(durable: &Client<Durable>) -> ClientResult<()> {
    durable.enqueue_many([Local, Local]).await?;
    Ok(())
}

fn handle(client: &Client) {
    client.handle::<Precious>("id");
}

async fn schedule(client: &Client) -> ClientResult<()> {
    client.schedule("daily", Precious).cron("0 9 * * *").await?;
    Ok(())
}

async fn declare(durable: &Client<Durable>) -> ClientResult<()> {
    Schedules::group("all")
        .add(Schedule::new("daily", Precious).cron("0 9 * * *"))
        .add(Schedule::new("daily", Local).cron("0 9 * * *"))
        .declare(durable)
        .await?;
    Ok(())
}

fn main() {}

use mq_core::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Nameless;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "email")]
struct NamelessWithQueue;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "")]
struct Empty;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "email/send")]
struct Slash;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "sched")]
struct Reserved;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a\0b")]
struct Nul;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääx")]
struct Long;

#[derive(Serialize, Deserialize, Job)]
#[job(name = send_email)]
struct Unquoted;

#[derive(Serialize, Deserialize, Job)]
#[job(name = "a", queue = "")]
struct EmptyQueue;

fn main() {
    // A mistake in an attribute is the only error: the type is a job all the same.
    fn is_job<J: Job>() {}
    is_job::<Slash>();
}

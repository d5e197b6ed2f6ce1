use mq_core::Job;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(name = "import")]
struct Generic<T> {
    row: T,
}

#[derive(Serialize, Job)]
#[job(name = "borrow")]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(Job)]
#[job(name = "union")]
union Bits {
    int: u32,
    float: f32,
}

fn main() {}

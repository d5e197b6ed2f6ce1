//! Runs jobs through worker processes while it kills workers and servers, and
//! decides from logs outside the store whether anything was lost or run twice.

mod check;
mod clock;
mod event;
mod log;
mod plan;

fn main() {}

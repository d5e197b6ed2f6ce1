//! Acks that fan out: the children's rows are staged in pages, and the last
//! page parks the parent.

use mq_core::validate::MAX_BATCH;
use mq_core::{Ack, AckOutcome, Acked, FlowChild, Result};
use redis::Value;

use super::lock_answer;
use crate::RedisStore;
use crate::codec::child_row;
use crate::connection::Call;
use crate::script;

/// How many bytes of rows one call carries; a larger row goes alone.
const PAGE_BYTES: usize = 512 * 1024;

impl RedisStore {
    pub(super) async fn fan_out(&self, ack: &Ack) -> Result<Acked> {
        let AckOutcome::FanOut {
            fail_fast,
            children,
        } = &ack.outcome
        else {
            return Ok(Acked { applied: false });
        };
        let mut staged = 0;
        loop {
            let rows = page(&children[staged..])?;
            staged += rows.len();
            let is_last = staged == children.len();
            let mut call = self.fan_out_call(ack, is_last, *fail_fast);
            for (child, row) in &rows {
                call.arg(&*child.key).arg(row);
            }
            let answer = self.run(&call).await?;
            if matches!(&answer, Value::BulkString(word) if word == b"has") {
                // The parent keeps the manifest it has.
                staged = children.len();
                continue;
            }
            let applied = lock_answer("fan_out", &ack.lock.id, answer)? == 1;
            if is_last || !applied {
                return Ok(Acked { applied });
            }
        }
    }

    fn fan_out_call(&self, ack: &Ack, is_last: bool, fail_fast: bool) -> Call {
        let flag = |yes: bool| if yes { "1" } else { "0" };
        let mut call = self.call(&script::FAN_OUT);
        call.arg(&*ack.lock.id)
            .arg(&*ack.lock.token)
            .arg(flag(is_last))
            .arg(flag(fail_fast));
        call
    }
}

/// The next page of children, with their rows.
fn page(children: &[FlowChild]) -> Result<Vec<(&FlowChild, Vec<u8>)>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for child in children.iter().take(MAX_BATCH as usize) {
        let row = child_row(child)?;
        bytes += row.len();
        if !rows.is_empty() && bytes > PAGE_BYTES {
            break;
        }
        rows.push((child, row));
    }
    Ok(rows)
}

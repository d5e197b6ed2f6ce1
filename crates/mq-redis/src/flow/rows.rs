//! Reads of a flow's rows.

use mq_core::validate::{self, MAX_BATCH, MAX_PAGE, MAX_PAGE_BYTES};
use mq_core::{ChildKey, JobId, LockToken, RawJson, Result, ResultPage};

use super::{broken_row, in_order};
use crate::RedisStore;
use crate::codec::{Closed, child_result};
use crate::connection::Repeat;
use crate::script;

impl RedisStore {
    pub(super) async fn read_results(
        &self,
        flow_id: &JobId,
        cursor: Option<&ChildKey>,
        limit: Option<u32>,
    ) -> Result<ResultPage> {
        validate::job_id(flow_id)?;
        cursor.map_or(Ok(()), validate::child_key)?;
        let limit = validate::page_limit(limit.unwrap_or(MAX_PAGE))? as usize;
        let mut page = ResultPage::default();
        let mut bytes = 0;
        loop {
            // One more than there is room for tells whether there are more.
            let most = (limit + 1 - page.items.len()).min(MAX_BATCH as usize);
            let from = page.items.last().map(|child| &child.key).or(cursor);
            let mut call = self.call(&script::CHILD_RESULTS).repeat(Repeat::Safely);
            call.arg(&**flow_id)
                .arg(from.map_or("", |key| &**key))
                .number(most as u64);
            let mut answer = self.run_list(&call).await?;
            let closed = match answer.number()? {
                1 => Closed::Yes,
                _ => Closed::No,
            };
            let is_cut = answer.number()? == 1;
            let is_all = !is_cut && answer.len() / 2 < most;
            while !answer.is_empty() {
                let key = answer.text()?;
                let row = answer.optional_bytes()?.unwrap_or_default();
                let child = child_result(&key, &row, closed)
                    .map_err(|broken| broken_row(flow_id, &key, broken))?;
                bytes += child
                    .exit
                    .as_ref()
                    .map_or(0, |exit: &RawJson| exit.get().len());
                let full = page.items.len() == limit || bytes > MAX_PAGE_BYTES;
                if full && !page.items.is_empty() {
                    page.cursor = page.items.last().map(|last| last.key.clone());
                    return Ok(page);
                }
                page.items.push(child);
            }
            if is_all {
                return Ok(page);
            }
        }
    }

    pub(super) async fn which_are_pending(
        &self,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<ChildKey>> {
        validate::flow_children(flow_id, manifest, keys)?;
        let mut pending = Vec::new();
        for page in in_order(keys).chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::PENDING_CHILDREN).repeat(Repeat::Safely);
            call.arg(&**flow_id).arg(&**manifest);
            for key in page {
                call.arg(&***key);
            }
            let mut places = self.run_list(&call).await?;
            while !places.is_empty() {
                let place = places.number()? as usize;
                pending.extend(page.get(place.saturating_sub(1)).map(|key| (*key).clone()));
            }
        }
        Ok(pending)
    }
}

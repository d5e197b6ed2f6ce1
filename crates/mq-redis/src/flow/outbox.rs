//! Reports of this store's flow children that nobody has fetched for good yet.

use mq_core::validate::{self, MAX_BATCH, MAX_PAGE_BYTES};
use mq_core::{
    ChildKey, JobId, LockToken, OutboxEntry, OutboxId, OutboxPage, Result, StoreError, StoreKey,
};

use super::in_order;
use crate::RedisStore;
use crate::codec::outbox_entry;
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

impl RedisStore {
    pub(super) async fn read_outbox(
        &self,
        after: Option<&OutboxId>,
        limit: u32,
    ) -> Result<OutboxPage> {
        after.map_or(Ok(()), validate::outbox_id)?;
        let limit = validate::page_limit(limit)? as usize;
        let mut page = OutboxPage::default();
        let mut after = after.and_then(number);
        let mut bytes = 0;
        loop {
            let most = (limit + 1 - page.entries.len()).min(MAX_BATCH as usize);
            let mut call = self.call(&script::PEEK_OUTBOX).repeat(Repeat::Safely);
            match after {
                Some(number) => call.number(number),
                None => call.arg(""),
            };
            call.number(most as u64);
            let mut answer = self.run_list(&call).await?;
            let is_all = answer.number()? == 1;
            while !answer.is_empty() {
                let entry = read(&mut answer)?;
                bytes += entry
                    .report
                    .exit
                    .as_ref()
                    .map_or(0, |exit| exit.get().len());
                let full = page.entries.len() == limit || bytes > MAX_PAGE_BYTES;
                if full && !page.entries.is_empty() {
                    page.more = true;
                    return Ok(page);
                }
                after = number(&entry.id);
                page.entries.push(entry);
            }
            if is_all {
                return Ok(page);
            }
        }
    }

    pub(super) async fn delete_reports(&self, ids: &[OutboxId]) -> Result<()> {
        ids.iter().try_for_each(validate::outbox_id)?;
        let numbers: Vec<u64> = ids.iter().filter_map(number).collect();
        for page in numbers.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::DELETE_OUTBOX).repeat(Repeat::Safely);
            for number in page {
                call.number(*number);
            }
            self.run(&call).await?;
        }
        Ok(())
    }

    pub(super) async fn find_reports(
        &self,
        parent_store: &StoreKey,
        flow_id: &JobId,
        manifest: &LockToken,
        keys: &[ChildKey],
    ) -> Result<Vec<OutboxEntry>> {
        validate::store_key(parent_store)?;
        validate::flow_children(flow_id, manifest, keys)?;
        let mut entries = Vec::new();
        for page in in_order(keys).chunks(MAX_BATCH as usize) {
            let mut call = self
                .call(&script::UNDELIVERED_REPORTS)
                .repeat(Repeat::Safely);
            call.arg(&**parent_store).arg(&**flow_id).arg(&**manifest);
            for key in page {
                call.arg(&***key);
            }
            let mut answer = self.run_list(&call).await?;
            while !answer.is_empty() {
                entries.push(read(&mut answer)?);
            }
        }
        Ok(entries)
    }
}

/// The number an id was made of, if it can be one that was given out. Numbers
/// can be written in more ways than that one.
fn number(id: &OutboxId) -> Option<u64> {
    let number: u64 = id.parse().ok()?;
    ((1..1 << 48).contains(&number) && number.to_string() == **id).then_some(number)
}

fn read(answer: &mut Reply) -> Result<OutboxEntry> {
    let number = answer.text()?;
    let text = answer.bytes()?;
    outbox_entry(number.clone(), &text).map_err(|broken| StoreError::Backend {
        message: format!("report {number} in the outbox cannot be read: {}", broken.0),
        source: None,
    })
}

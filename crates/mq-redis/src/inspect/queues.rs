//! Queues: their counts and settings.

use std::collections::BTreeMap;
use std::time::Duration;

use mq_core::{JobState, QueueInfo, QueueName, Rate, Result, StateCounts, StoreError};

use crate::RedisStore;
use crate::codec::{Broken, Reader, state};
use crate::connection::Repeat;
use crate::reply::Reply;
use crate::script;

impl RedisStore {
    /// Counts of every queue that has jobs, and the settings of those that have
    /// any, as keys and texts in turn.
    async fn read_queues(&self) -> Result<(BTreeMap<QueueName, StateCounts>, Reply)> {
        let call = self.call(&script::COUNTS).repeat(Repeat::Safely);
        let mut answer = self.run_list(&call).await?;
        let mut fields = answer.list()?;
        let mut queues: BTreeMap<QueueName, StateCounts> = BTreeMap::new();
        while !fields.is_empty() {
            let (field, number) = (fields.text()?, fields.number()?);
            if let Some((queue, state)) = counted(&field) {
                *queues.entry(queue.into()).or_default().of_mut(state) += number;
            }
        }
        Ok((queues, answer.list()?))
    }

    pub(super) async fn count_jobs(&self, queue: Option<&QueueName>) -> Result<StateCounts> {
        let (mut queues, _) = self.read_queues().await?;
        if let Some(queue) = queue {
            return Ok(queues.remove(queue).unwrap_or_default());
        }
        let mut sum = StateCounts::default();
        for counts in queues.values() {
            for state in JobState::ALL {
                *sum.of_mut(state) += counts.of(state);
            }
        }
        Ok(sum)
    }

    pub(super) async fn list_queues(&self) -> Result<Vec<QueueInfo>> {
        let (counts, mut settings) = self.read_queues().await?;
        let plain = |(queue, counts): (QueueName, StateCounts)| {
            let info = QueueInfo {
                queue: queue.clone(),
                counts,
                paused: false,
                max_active: None,
                rate: None,
            };
            (queue, info)
        };
        let mut queues: BTreeMap<_, _> = counts.into_iter().map(plain).collect();
        while !settings.is_empty() {
            let queue = QueueName::from(settings.text()?);
            let text = settings.bytes()?;
            let info = queues
                .entry(queue.clone())
                .or_insert_with(|| plain((queue.clone(), StateCounts::default())).1);
            add_settings(info, &text).map_err(|broken| StoreError::Backend {
                message: format!(
                    "the settings of queue {queue:?} cannot be read ({}): set them anew",
                    broken.0
                ),
                source: None,
            })?;
        }
        Ok(queues.into_values().collect())
    }
}

/// The queue and the state that a field of the counts is of.
fn counted(field: &str) -> Option<(&str, JobState)> {
    let (queue, letter) = field.rsplit_once('\0')?;
    let state = letter
        .bytes()
        .next()
        .and_then(|letter| state(letter).ok())?;
    Some((queue, state))
}

fn add_settings(info: &mut QueueInfo, text: &[u8]) -> Result<(), Broken> {
    let mut reader = Reader::new(text);
    info.paused = reader.u8()? & 1 != 0;
    let most = reader.u32()?;
    info.max_active = (most > 0).then_some(most);
    let (count, per) = (reader.u32()?, reader.u48()?);
    info.rate = (count > 0).then_some(Rate {
        count,
        per: Duration::from_millis(per),
    });
    Ok(())
}

//! Watching: which jobs' ends are announced.

use std::collections::HashSet;

use mq_core::validate::MAX_BATCH;
use mq_core::{JobId, Result};

use crate::rows::read_all;
use crate::statement::clock;
use crate::store::Inner;

/// Marks jobs as watched, and tells of each what is to be done: nothing more
/// (`marked`, `over`), or to look again because it moved meanwhile.
///
/// A job that has just ended is spared for the rest of its minute; if it has a
/// `keep` by count, that acts after it.
const WATCH: &str = concat!(
    "WITH ",
    clock!(),
    ", ready AS (
        UPDATE $mq_ready s SET watched = true FROM unnest($2::text[]) AS i(id)
        WHERE s.job_id = i.id AND NOT s.watched RETURNING s.job_id
    ),
    delayed AS (
        UPDATE $mq_delayed s SET watched = true FROM unnest($2::text[]) AS i(id)
        WHERE s.job_id = i.id AND NOT s.watched RETURNING s.job_id
    ),
    active AS (
        UPDATE $mq_active s SET watched = true FROM unnest($2::text[]) AS i(id)
        WHERE s.job_id = i.id AND NOT s.watched RETURNING s.job_id
    ),
    parked AS (
        UPDATE $mq_parked s SET watched = true FROM unnest($2::text[]) AS i(id)
        WHERE s.job_id = i.id AND NOT s.watched RETURNING s.job_id
    ),
    spared AS (
        UPDATE $mq_finished s SET watched = true, sweep_at = CASE
            WHEN j.keep -> s.state ->> 'count' IS NOT NULL
                THEN s.finished_at + interval '60 seconds'
            WHEN s.sweep_at IS NOT NULL
                THEN greatest(s.sweep_at, s.finished_at + interval '60 seconds')
        END
        FROM unnest($2::text[]) AS i(id) JOIN $mq_job j ON j.id = i.id
        WHERE s.job_id = i.id AND NOT s.watched
            AND s.finished_at > (SELECT now FROM clock) - interval '60 seconds'
    ),
    marked AS MATERIALIZED (
        SELECT job_id FROM ready UNION ALL SELECT job_id FROM delayed
        UNION ALL SELECT job_id FROM active UNION ALL SELECT job_id FROM parked
    )
    SELECT i.id, CASE
        WHEN f.job_id IS NOT NULL OR j.id IS NULL THEN 'over'
        WHEN coalesce(r.watched, d.watched, a.watched, p.watched)
            OR i.id IN (SELECT job_id FROM marked) THEN 'marked'
        ELSE 'moved' END
    FROM unnest($2::text[]) AS i(id)
        LEFT JOIN $mq_job j ON j.id = i.id
        LEFT JOIN $mq_ready r ON r.job_id = i.id
        LEFT JOIN $mq_delayed d ON d.job_id = i.id
        LEFT JOIN $mq_active a ON a.job_id = i.id
        LEFT JOIN $mq_parked p ON p.job_id = i.id
        LEFT JOIN $mq_finished f ON f.job_id = i.id"
);

impl Inner {
    /// Marks jobs as watched, and answers those that are over.
    pub(super) async fn mark_watched(&self, ids: &[JobId]) -> Result<Vec<JobId>> {
        let mut finished = Vec::new();
        for page in ids.chunks(MAX_BATCH as usize) {
            let mut sorted: Vec<JobId> = page.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            let mut over = HashSet::new();
            while !sorted.is_empty() {
                let ids: Vec<&str> = sorted.iter().map(JobId::as_str).collect();
                let rows = self.query(&self.timed(WATCH).bind(ids)).await?;
                let found = read_all(&rows, |columns| {
                    Ok((JobId::from(columns.text()?), columns.text()?))
                })?;
                sorted.clear();
                for (id, what) in found {
                    match what.as_str() {
                        "over" => drop(over.insert(id)),
                        "moved" => sorted.push(id),
                        _ => {}
                    }
                }
            }
            finished.extend(page.iter().filter(|id| over.contains(*id)).cloned());
        }
        Ok(finished)
    }
}

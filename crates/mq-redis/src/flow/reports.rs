//! Reports of children, applied to their rows.

use mq_core::validate::{self, MAX_BATCH};
use mq_core::{RawJson, Report, ReportApplied, ReportOutcome, Result};

use crate::RedisStore;
use crate::script;

impl RedisStore {
    pub(super) async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>> {
        validate::record_child_results(&reports, self.limits())?;
        let mut answers = Vec::with_capacity(reports.len());
        for page in reports.chunks(MAX_BATCH as usize) {
            let mut call = self.call(&script::RECORD_RESULTS);
            for report in page {
                let reason = report.failed_reason.as_deref();
                let flags = u64::from(report.exit.is_some()) + 2 * u64::from(reason.is_some());
                call.arg(&*report.flow_id)
                    .arg(&*report.manifest)
                    .arg(&*report.child_key)
                    .arg(match report.outcome {
                        ReportOutcome::Completed => "c",
                        ReportOutcome::Failed => "f",
                        ReportOutcome::Cancelled => "x",
                    })
                    .number(flags)
                    .arg(reason.unwrap_or_default())
                    .arg(report.exit.as_ref().map_or("", RawJson::get));
            }
            let mut applied = self.run_list(&call).await?;
            for _ in page {
                let what = applied.number()?;
                answers.push(ReportApplied {
                    applied: what > 0,
                    parent_settled: what == 2,
                });
            }
        }
        Ok(answers)
    }
}

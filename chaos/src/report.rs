//! Says how a run went.

use crate::conduct::{Order, Outcome};

/// How many of a kind of finding are listed.
const SHOWN: usize = 20;

impl Outcome {
    /// Whether nothing was lost, and nothing went wrong.
    pub(crate) fn is_faultless(&self) -> bool {
        self.findings.violations.is_empty()
            && self.audit.lost.is_empty()
            && self.audit.wrong.is_empty()
    }

    /// Prints it.
    pub(crate) fn print(&self, order: &Order) {
        let tally = &self.findings.tally;
        let struck = &self.struck;
        let rows = [
            ("store", order.store.name().to_owned()),
            ("seed", order.seed.to_string()),
            (
                "took",
                humantime::format_duration(whole_seconds(self.took)).to_string(),
            ),
            (
                "jobs accepted",
                format!("{} of {}", tally.accepted, order.jobs),
            ),
            (
                "runs begun",
                format!("{} for {} claims", tally.runs, tally.claimed),
            ),
            ("runs stalled", self.audit.stalls.to_string()),
            (
                "worker kills",
                format!(
                    "{}, {} of them under a held lock",
                    tally.kills, tally.kills_holding
                ),
            ),
            ("server kills", struck.server_kills.to_string()),
            ("frozen processes", struck.process_freezes.to_string()),
            ("frozen networks", struck.network_freezes.to_string()),
            ("reset connections", struck.cuts.to_string()),
            ("lost replies", struck.lost_replies.to_string()),
            ("faults that struck nobody", self.unstruck.to_string()),
            (
                "acks",
                format!(
                    "{} applied, {} repeated, {} refused, {} in doubt",
                    tally.applied, tally.repeated, tally.refused, tally.in_doubt
                ),
            ),
            ("lost", self.audit.lost.len().to_string()),
            ("ended wrongly", self.audit.wrong.len().to_string()),
            ("violations", self.findings.violations.len().to_string()),
        ];
        for (name, value) in rows {
            println!("{name:<26} {value}");
        }
        list(&self.audit.lost);
        list(&self.audit.wrong);
        list(&self.findings.violations);
    }
}

fn whole_seconds(time: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(time.as_secs())
}

fn list(found: &[impl ToString]) {
    for one in found.iter().take(SHOWN) {
        println!("  {}", one.to_string());
    }
    if found.len() > SHOWN {
        println!("  … and {} more", found.len() - SHOWN);
    }
}

//! Ledger entries.

use mq_core::{AttemptOutcome, AttemptRecord};

use super::{Broken, Reader, record::json};

/// Reads an entry as scripts write it.
pub(crate) fn ledger_entry(bytes: &[u8]) -> Result<AttemptRecord, Broken> {
    let mut reader = Reader::new(bytes);
    let attempt = reader.u32()?;
    let outcome = outcome(reader.u8()?)?;
    let started_at = reader.optional_instant()?;
    let finished_at = reader.instant()?;
    let has_exit = reader.u8()? == 1;
    Ok(AttemptRecord {
        attempt,
        started_at,
        finished_at,
        outcome,
        exit: has_exit.then(|| json(reader.rest()?)).transpose()?,
    })
}

pub(super) fn outcome(letter: u8) -> Result<AttemptOutcome, Broken> {
    Ok(match letter {
        b'c' => AttemptOutcome::Completed,
        b'r' => AttemptOutcome::Retried,
        b'f' => AttemptOutcome::Failed,
        b't' => AttemptOutcome::Stalled,
        b'x' => AttemptOutcome::Cancelled,
        b'o' => AttemptOutcome::FannedOut,
        b's' => AttemptOutcome::Snoozed,
        _ => return Err(Broken("a ledger entry has an unknown outcome")),
    })
}

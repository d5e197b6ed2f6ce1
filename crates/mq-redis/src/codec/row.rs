//! Children's rows, and reports on their way up.

use mq_core::{
    ChildResult, ChildStatus, FlowChild, NewJob, OutboxEntry, OutboxId, Report, ReportOutcome,
    StoreError,
};

use super::record::{extra, json};
use super::{Broken, Reader, Writer};

/// A row of a child that has not run: its status and flags, what it is called,
/// where it runs, and all that is needed to enqueue it again.
pub(crate) fn child_row(child: &FlowChild) -> Result<Vec<u8>, StoreError> {
    let job = serde_json::to_string(&child.job).map_err(|error| StoreError::Backend {
        message: format!("child {:?} cannot be written: {error}", child.key),
        source: None,
    })?;
    let mut writer = Writer::with_capacity(64 + job.len());
    writer.u8(b'p');
    writer.u8(0);
    writer.text(&child.job.spec.name);
    writer.text(&child.store);
    writer.text(child.job.id.as_deref().unwrap_or_default());
    writer.long_text(&job);
    writer.long_text("");
    Ok(writer.finish())
}

/// What a row says of its child; `closed` is whether its flow is.
pub(crate) fn child_result(key: &str, row: &[u8], closed: Closed) -> Result<ChildResult, Broken> {
    let mut reader = Reader::new(row);
    let status = match (reader.u8()?, closed) {
        (b'p', Closed::No) => ChildStatus::Pending,
        (b'p', Closed::Yes) | (b'x', _) => ChildStatus::Cancelled,
        (b'c', _) => ChildStatus::Completed,
        (b'f', _) => ChildStatus::Failed,
        _ => return Err(Broken("its status is unknown")),
    };
    let flags = reader.u8()?;
    let (name, store, job_id) = (reader.text()?, reader.text()?, reader.text()?);
    let _spec = reader.long_text()?;
    let reason = reader.long_text()?;
    let exit = reader.rest()?;
    Ok(ChildResult {
        key: key.into(),
        name: name.into(),
        store: store.into(),
        job_id: job_id.into(),
        status,
        exit: (flags & 2 != 0).then(|| json(exit)).transpose()?,
        failed_reason: (flags & 4 != 0).then(|| reason.to_owned()),
    })
}

/// Whether a flow is closed, so that what is stored as pending is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Yes,
    No,
}

/// The child of a row, with all that is needed to enqueue it again.
pub(crate) fn child(key: &str, row: &[u8]) -> Result<FlowChild, Broken> {
    let mut reader = Reader::new(row);
    let (_status, _flags) = (reader.u8()?, reader.u8()?);
    let (_name, store, _job_id) = (reader.text()?, reader.text()?, reader.text()?);
    let job: NewJob = serde_json::from_str(reader.long_text()?)
        .map_err(|_| Broken("what its child is to be enqueued with is no JSON of a job"))?;
    Ok(FlowChild {
        key: key.into(),
        store: store.into(),
        job,
    })
}

/// What a report says, as the outbox keeps it under this number.
pub(crate) fn outbox_entry(number: String, text: &[u8]) -> Result<OutboxEntry, Broken> {
    let mut reader = Reader::new(text);
    let outcome = match reader.u8()? {
        b'c' => ReportOutcome::Completed,
        b'f' => ReportOutcome::Failed,
        b'x' => ReportOutcome::Cancelled,
        _ => return Err(Broken("its outcome is unknown")),
    };
    let flags = reader.u8()?;
    let length = reader.u32()?;
    let (_, parent) = extra(Reader::new(reader.bytes(length as usize)?))?;
    let parent = parent.ok_or(Broken("it names no parent"))?;
    let reason = reader.long_text()?;
    let exit = reader.rest()?;
    Ok(OutboxEntry {
        id: OutboxId::from(number),
        flow_name: parent.flow_name,
        parent_store: parent.parent_store,
        report: Report {
            flow_id: parent.flow_id,
            manifest: parent.manifest,
            child_key: parent.child_key,
            outcome,
            exit: (flags & 1 != 0).then(|| json(exit)).transpose()?,
            failed_reason: (flags & 2 != 0).then(|| reason.to_owned()),
        },
    })
}

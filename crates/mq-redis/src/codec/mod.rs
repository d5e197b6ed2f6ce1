//! The packed texts that scripts and this crate exchange and that the server
//! keeps. Numbers are big-endian; instants and durations are milliseconds in
//! six bytes, all ones if absent; texts have their length before them.
//!
//! The layout is described in `docs/decisions/0011-redis-layout.md`.

mod job;
mod ledger;
mod record;
mod row;

pub(crate) use job::job_body;
pub(crate) use ledger::ledger_entry;
pub(crate) use record::{StoredJob, record, state};
pub(crate) use row::{Closed, child, child_result, child_row, outbox_entry};

use std::time::Duration;

use mq_core::{Timestamp, ceil_millis};

/// What stands for no instant or duration.
pub(crate) const NONE: u64 = (1 << 48) - 1;

/// Writes a packed text.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    /// The lower six bytes of a number.
    pub(crate) fn u48(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes()[2..]);
    }

    pub(crate) fn f64(&mut self, number: f64) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn duration(&mut self, duration: Duration) {
        self.u48(ceil_millis(duration).min(Timestamp::MAX.as_millis()));
    }

    /// A text of less than 64 KiB, as all names and keys are.
    pub(crate) fn text(&mut self, text: &str) {
        self.u16(text.len() as u16);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A text of any length.
    pub(crate) fn long_text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// The last text of all, whose length is what is left.
    pub(crate) fn rest(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// What another writer wrote, with its length before it.
    pub(crate) fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.u16(0);
        write(self);
        let length = (self.0.len() - at - 2) as u16;
        self.0[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Why a packed text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// Reads a packed text.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Broken("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Broken> {
        let digits = self.bytes(bytes)?;
        Ok(digits
            .iter()
            .fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Broken> {
        Ok(self.number(1)? as u8)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Broken> {
        Ok(self.number(2)? as u16)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Broken> {
        Ok(self.number(4)? as u32)
    }

    pub(crate) fn u48(&mut self) -> Result<u64, Broken> {
        self.number(6)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Broken> {
        Ok(f64::from_bits(self.number(8)?))
    }

    pub(crate) fn instant(&mut self) -> Result<Timestamp, Broken> {
        Timestamp::from_millis(self.u48()?).ok_or(Broken("an instant is out of range"))
    }

    pub(crate) fn optional_instant(&mut self) -> Result<Option<Timestamp>, Broken> {
        match self.u48()? {
            NONE => Ok(None),
            millis => Timestamp::from_millis(millis)
                .map(Some)
                .ok_or(Broken("an instant is out of range")),
        }
    }

    pub(crate) fn duration(&mut self) -> Result<Duration, Broken> {
        Ok(self.instant()?.since(Timestamp::MIN))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Broken> {
        let length = self.u16()?;
        utf8(self.bytes(length.into())?)
    }

    pub(crate) fn long_text(&mut self) -> Result<&'a str, Broken> {
        let length = self.u32()?;
        utf8(self.bytes(length as usize)?)
    }

    pub(crate) fn nested(&mut self) -> Result<Self, Broken> {
        let length = self.u16()?;
        self.bytes(length.into()).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn rest(self) -> Result<&'a str, Broken> {
        utf8(self.0)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Broken> {
    std::str::from_utf8(bytes).map_err(|_| Broken("a text is not UTF-8"))
}

//! What scripts answer, taken apart.

use mq_core::StoreError;
use redis::Value;

/// A list that a script answered, taken from the front.
pub(crate) struct Reply {
    script: &'static str,
    items: std::vec::IntoIter<Value>,
}

impl Reply {
    /// The list itself.
    pub(crate) fn new(script: &'static str, value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(items) => Ok(Self {
                script,
                items: items.into_iter(),
            }),
            other => Err(unexpected(script, "a list", &other)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn next(&mut self) -> Result<Value, StoreError> {
        self.items
            .next()
            .ok_or_else(|| unexpected(self.script, "one more value", &Value::Nil))
    }

    pub(crate) fn list(&mut self) -> Result<Self, StoreError> {
        Self::new(self.script, self.next()?)
    }

    pub(crate) fn number(&mut self) -> Result<u64, StoreError> {
        let value = self.next()?;
        number(&value).ok_or_else(|| unexpected(self.script, "a number", &value))
    }

    pub(crate) fn optional_number(&mut self) -> Result<Option<u64>, StoreError> {
        match self.next()? {
            Value::Nil => Ok(None),
            value => number(&value)
                .map(Some)
                .ok_or_else(|| unexpected(self.script, "a number", &value)),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            other => Err(unexpected(self.script, "a text", &other)),
        }
    }

    pub(crate) fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            other => Err(unexpected(self.script, "a text", &other)),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(|error| StoreError::Backend {
            message: format!("script {} answered text that is not UTF-8", self.script),
            source: Some(mq_core::Cause::new(error)),
        })
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

/// An answer of another shape than the script gives.
pub(crate) fn unexpected(script: &str, expected: &str, got: &Value) -> StoreError {
    let got: String = format!("{got:?}").chars().take(100).collect();
    StoreError::Backend {
        message: format!("script {script} should have answered {expected}, but answered {got}"),
        source: None,
    }
}

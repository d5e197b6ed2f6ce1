//! The texts that name things: jobs, queues, stores, schedules, locks.
//!
//! Each is a cheap-to-clone newtype over shared text, so that a queue name
//! cannot be passed where a job id is meant. None of them checks itself: a
//! store validates what it is given ([`crate::validate`]), so that every
//! driver refuses the same things in the same words.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as it is; the store that receives it checks it.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&$name> for $name {
            fn from(text: &$name) -> Self {
                text.clone()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

text! {
    /// The id of a job, unique in its store; at most 1,024 bytes.
    JobId;
    /// The name of a kind of job, such as `send-email`; at most 256 bytes, no `/`.
    JobName;
    /// The name of a queue; at most 256 bytes.
    QueueName;
    /// The key of a schedule, unique in its store; at most 256 bytes.
    ScheduleKey;
    /// A dedupe key, scoped to a job name; at most 256 bytes.
    DedupeKey;
    /// The key of a child within its flow; at most 256 bytes.
    ChildKey;
    /// The name a store is bound to and flow rows route by; at most 256 bytes.
    StoreKey;
    /// The name of a flow; at most 256 bytes.
    FlowName;
    /// The proof of a lock: drawn for one claim call, held by what it claimed.
    LockToken;
    /// The id of a worker in worker records; at most 256 bytes.
    WorkerId;
    /// The opaque id of an outbox entry, issued by the store that holds it.
    OutboxId;
}

impl LockToken {
    /// Draws a token that no other claim call has.
    pub fn random() -> Self {
        Self::new(compact(Uuid::now_v7()))
    }
}

/// Draws the ids of jobs that are enqueued without one.
///
/// It must not repeat itself: a store redraws a few times when an id turns out
/// to be taken, then gives up with an error.
pub type IdGenerator = Arc<dyn Fn() -> JobId + Send + Sync>;

/// The default [`IdGenerator`]: a UUID of version 7
/// ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7)) in
/// 26 characters that sort as they were drawn.
pub fn uuid_v7() -> IdGenerator {
    Arc::new(|| JobId::new(compact(Uuid::now_v7())))
}

/// 128 bits as 26 characters of Crockford's base 32, whose byte order is the
/// order of the numbers.
fn compact(uuid: Uuid) -> Arc<str> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bits = uuid.as_u128();
    let mut text = [0; 26];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[bits as usize & 31];
        bits >>= 5;
    }
    std::str::from_utf8(&text)
        .expect("the digits are ASCII")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_ids_sort_as_their_numbers_do() {
        let mut numbers = [0, 1, 31, 32, u128::MAX, u128::MAX - 1, 1 << 127, 1 << 64];
        numbers.sort_unstable();
        let texts: Vec<_> = numbers
            .iter()
            .map(|&n| compact(Uuid::from_u128(n)))
            .collect();
        assert!(texts.is_sorted());
        assert!(texts.iter().all(|text| text.len() == 26));
    }

    #[test]
    fn drawn_ids_differ_and_ascend() {
        let draw = uuid_v7();
        let ids: Vec<_> = (0..1000).map(|_| draw()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

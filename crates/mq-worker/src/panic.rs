//! What can be said of a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message of a panic. Where it happened is known to the panic hook only,
/// which belongs to the program and stays as it is.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast::<&'static str>() {
        Ok(text) => Some((*text).to_owned()),
        Err(panic) => match panic.downcast::<String>() {
            Ok(text) => Some(*text),
            Err(panic) => {
                discard(panic);
                None
            }
        },
    };
    text.unwrap_or_else(|| "panicked with a value that is not a text".to_owned())
}

/// Drops what somebody panicked with, which may panic in turn.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // There is no end to it otherwise.
        std::mem::forget(another);
    }
}

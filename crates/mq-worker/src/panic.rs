//! What can be said of a panic.

use std::any::Any;

/// The message of a panic. Where it happened is known to the panic hook only,
/// which belongs to the program and stays as it is.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast::<&'static str>() {
        Ok(text) => Some((*text).to_owned()),
        Err(panic) => panic.downcast::<String>().ok().map(|text| *text),
    };
    text.unwrap_or_else(|| "panicked with a value that is not a text".to_owned())
}

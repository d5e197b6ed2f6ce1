//! Literals and the rules they keep: names, durations, numbers.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use proc_macro2::Span;
use syn::parse::ParseStream;
use syn::{Error, Lit, LitInt, LitStr, Result, Token};

/// The longest name, in bytes; the same as a store's.
const MAX_NAME: usize = 256;
/// Job names that ids are built with.
const RESERVED_NAMES: [&str; 2] = ["sched", "flow"];
/// The longest duration: from 1970 to the end of 9999.
const LONGEST: Duration = Duration::from_millis(253_402_300_799_999);

/// A text as the value of `attribute`.
fn text(input: ParseStream<'_>, attribute: &str, example: &str) -> Result<LitStr> {
    match input.parse::<Lit>() {
        Ok(Lit::Str(text)) => Ok(text),
        Ok(other) => Err(Error::new(other.span(), wanted(attribute, example))),
        Err(error) => Err(Error::new(error.span(), wanted(attribute, example))),
    }
}

fn wanted(attribute: &str, example: &str) -> String {
    format!("`{attribute}` takes a text in quotes, such as {attribute} = {example:?}")
}

/// The name of a kind of job.
pub(crate) fn job_name(input: ParseStream<'_>) -> Result<LitStr> {
    let text = name(input, "name", "job name", "send-email")?;
    let value = text.value();
    if value.contains('/') {
        return Err(Error::new(
            text.span(),
            format!(
                "job name {value:?} holds a slash, which separates the parts of job ids: use another sign"
            ),
        ));
    }
    if RESERVED_NAMES.contains(&value.as_str()) {
        return Err(Error::new(
            text.span(),
            format!("job name {value:?} is kept for ids that the library builds: choose another"),
        ));
    }
    Ok(text)
}

/// The name of a queue.
pub(crate) fn queue_name(input: ParseStream<'_>) -> Result<LitStr> {
    name(input, "queue", "queue name", "email")
}

fn name(input: ParseStream<'_>, attribute: &str, what: &str, example: &str) -> Result<LitStr> {
    let text = text(input, attribute, example)?;
    let value = text.value();
    let broken = if value.is_empty() {
        "is empty: give it at least one character".to_owned()
    } else if value.len() > MAX_NAME {
        format!("is {} bytes long, at most {MAX_NAME}", value.len())
    } else if value.contains('\0') {
        "holds a NUL character (U+0000): remove it".to_owned()
    } else {
        return Ok(text);
    };
    Err(Error::new(text.span(), format!("{what} {broken}")))
}

/// A duration, zero included.
pub(crate) fn duration(input: ParseStream<'_>, attribute: &str) -> Result<Duration> {
    duration_of(&text(input, attribute, "30s")?, attribute)
}

/// The duration that a literal tells.
pub(crate) fn duration_of(text: &LitStr, attribute: &str) -> Result<Duration> {
    let value = text.value();
    let refuse = |why: &dyn Display| Error::new(text.span(), format!("`{attribute}`: {why}"));
    let duration = humantime::parse_duration(&value).map_err(|error| {
        refuse(&format_args!(
            "{value:?} is no duration ({error}): write numbers with units, such as \"250ms\", \"30s\", \"5m\", \"1h 30m\" or \"1d\""
        ))
    })?;
    if duration > LONGEST {
        return Err(refuse(&format_args!(
            "{value:?} is too long: at most 253402300799999ms, the span from 1970 to 9999"
        )));
    }
    Ok(duration)
}

/// A duration of more than nothing.
pub(crate) fn timeout(input: ParseStream<'_>) -> Result<Duration> {
    let text = text(input, "timeout", "30s")?;
    match duration_of(&text, "timeout")? {
        Duration::ZERO => Err(Error::new(
            text.span(),
            "`timeout` is zero, must be at least 1 ms: leave it out for none",
        )),
        timeout => Ok(timeout),
    }
}

/// How many runs may fail before the job does.
pub(crate) fn attempts(input: ParseStream<'_>) -> Result<u32> {
    let number = input.parse::<LitInt>().map_err(|error| {
        Error::new(
            error.span(),
            "`attempts` takes a number, such as attempts = 5",
        )
    })?;
    match base10(&number, "attempts")? {
        0 => Err(Error::new(
            number.span(),
            "`attempts` is zero, must be at least 1: the first run counts as one",
        )),
        attempts => Ok(attempts),
    }
}

/// A priority, negative or not.
pub(crate) fn priority(input: ParseStream<'_>) -> Result<i32> {
    let minus: Option<Token![-]> = input.parse()?;
    let number = input.parse::<LitInt>().map_err(|error| {
        Error::new(
            error.span(),
            "`priority` takes a whole number, such as priority = 10 or priority = -1",
        )
    })?;
    let sign = if minus.is_some() { "-" } else { "" };
    i32::from_str(&format!("{sign}{}", number.base10_digits())).map_err(|_| {
        Error::new(
            number.span(),
            format!(
                "`priority` is out of range: from {} to {}",
                i32::MIN,
                i32::MAX
            ),
        )
    })
}

/// How many finished jobs are kept.
pub(crate) fn count(input: ParseStream<'_>) -> Result<u32> {
    let number = input
        .parse::<LitInt>()
        .map_err(|error| Error::new(error.span(), "`count` takes a number, such as count = 100"))?;
    base10(&number, "count")
}

/// The value of a literal that is not negative.
pub(crate) fn base10(number: &LitInt, attribute: &str) -> Result<u32> {
    number.base10_parse().map_err(|_| {
        Error::new(
            number.span(),
            format!("`{attribute}` is out of range: at most {}", u32::MAX),
        )
    })
}

/// A number with or without a fraction, and where it stands.
pub(crate) fn number(input: ParseStream<'_>, attribute: &str) -> Result<(f64, Span)> {
    let parsed = match input.parse::<Lit>() {
        Ok(Lit::Float(number)) => number.base10_parse().map(|value| (value, number.span())),
        Ok(Lit::Int(number)) => number.base10_parse().map(|value| (value, number.span())),
        Ok(other) => Err(Error::new(other.span(), "")),
        Err(error) => Err(error),
    };
    parsed.map_err(|error| {
        Error::new(
            error.span(),
            format!("`{attribute}` takes a number, such as {attribute} = 0.5"),
        )
    })
}

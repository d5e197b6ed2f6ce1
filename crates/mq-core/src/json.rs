//! JSON that passes through untouched.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON text, kept byte for byte.
///
/// Stores neither parse nor reformat it: twenty-digit numbers, `1e400`, `-0.0`,
/// duplicate keys and lone-surrogate escapes come back as they went in. It is
/// known to be well-formed, and cheap to clone.
///
/// ```
/// use mq_core::RawJson;
///
/// let exact = RawJson::parse("12345678901234567890.10").unwrap();
/// assert_eq!(exact.get(), "12345678901234567890.10");
/// assert!(RawJson::parse("{oops").is_err());
/// assert_eq!(RawJson::encode(&vec![1, 2]).unwrap().decode::<Vec<u8>>().unwrap(), [1, 2]);
/// ```
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Checks that `text` is JSON and keeps it, without the white space around it.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let mut text = text.into();
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        if trimmed.len() != text.len() {
            text = trimmed.to_owned();
        }
        RawValue::from_string(text).map(|raw| Self(raw.into()))
    }

    /// Encodes a value.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(raw.into()))
    }

    /// Decodes the text into a value.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// `null`.
    pub fn null() -> Self {
        static NULL: LazyLock<RawJson> =
            LazyLock::new(|| RawJson(RawValue::NULL.to_owned().into()));
        NULL.clone()
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self::null()
    }
}

impl PartialEq for RawJson {
    /// Byte for byte: `1.0` and `1` differ.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_but_legal_texts_are_kept_byte_for_byte() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for text in [
            "12345678901234567890",
            "1e400",
            "-0.0",
            "[]",
            "{}",
            r#"{"a":1,"a":2}"#,
            r#""\ud800""#,
            r#""\u0000""#,
            "\"\u{1f980}\"",
            "{\"a\" :\n1}",
            &deep,
        ] {
            assert_eq!(RawJson::parse(text).unwrap().get(), text);
        }
    }

    #[test]
    fn white_space_around_a_text_is_not_part_of_it() {
        assert_eq!(RawJson::parse(" \n[1 ]\t").unwrap().get(), "[1 ]");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", " ", "nul", "01", "[1,]", "\"", "1 2", "\u{feff}1"] {
            assert!(RawJson::parse(text).is_err(), "{text:?}");
        }
    }
}

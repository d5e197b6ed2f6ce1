//! The prefix of a store, and the keys built from it outside scripts.

use mq_core::{InvalidInput, Rule};

/// The longest prefix, in bytes.
const MAX_PREFIX: usize = 256;

/// The hash tag that begins every key of a store: `{prefix}`. All keys of a
/// store lie in one slot by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashTag(String);

impl HashTag {
    /// The tag of a prefix, which must not be empty and hold neither braces,
    /// which would end the tag early, nor NUL, which separates parts of keys.
    pub(crate) fn new(prefix: &str) -> Result<Self, InvalidInput> {
        let refuse = |rule| Err(InvalidInput::new("store prefix", prefix, rule));
        if prefix.is_empty() {
            return refuse(Rule::Empty);
        }
        if prefix.len() > MAX_PREFIX {
            let (bytes, most) = (prefix.len(), MAX_PREFIX);
            return refuse(Rule::TooLong { bytes, most });
        }
        if prefix.contains('\0') {
            return refuse(Rule::Nul);
        }
        if prefix.contains(['{', '}']) {
            let rule = "holds a brace, which marks where a key's hash tag ends: use other signs";
            return refuse(Rule::Other(rule.into()));
        }
        Ok(Self(format!("{{{prefix}}}")))
    }

    /// The tag itself, as scripts get it in `KEYS[1]`.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of one of the store's structures.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.0)
    }

    /// The pattern of the keys of one kind, `job` for instance, as `MATCH`
    /// takes it: signs that mean something there are escaped.
    pub(crate) fn pattern(&self, kind: &str) -> String {
        let mut pattern = String::with_capacity(self.0.len() + kind.len() + 2);
        for sign in self.0.chars() {
            if matches!(sign, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
                pattern.push('\\');
            }
            pattern.push(sign);
        }
        pattern + ":" + kind + ":*"
    }

    /// The channel on which wake-ups and ends of watched jobs are announced.
    pub(crate) fn channel(&self) -> String {
        self.key("wake")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_becomes_a_hash_tag() {
        let tag = HashTag::new("billing").unwrap();
        assert_eq!(tag.as_str(), "{billing}");
        assert_eq!(tag.key("counts"), "{billing}:counts");
    }

    #[test]
    fn a_prefix_that_would_break_the_tag_is_refused() {
        for prefix in ["", "a{b", "a}b", "{}", "a\0b", &"x".repeat(257)] {
            assert!(HashTag::new(prefix).is_err(), "{prefix:?}");
        }
    }

    #[test]
    fn a_pattern_means_the_prefix_as_it_is() {
        let tag = HashTag::new("a*[b]?\\").unwrap();
        assert_eq!(tag.pattern("job"), r"{a\*\[b\]\?\\}:job:*");
    }

    #[test]
    fn other_signs_are_part_of_the_tag_as_they_are() {
        for prefix in ["a*b", "[x]?", "a:b", "ä", "\\"] {
            assert_eq!(
                HashTag::new(prefix).unwrap().as_str(),
                format!("{{{prefix}}}")
            );
        }
    }
}

//! JSON that a store keeps: how long and how deep it may be.

use super::{Limits, MAX_DEPTH, Validated};
use crate::error::{InvalidInput, Rule};
use crate::json::RawJson;

pub(super) fn exit(exit: Option<&RawJson>, limits: &Limits) -> Validated {
    exit.map_or(Ok(()), |exit| json("exit", exit, limits))
}

pub(super) fn json(field: &str, value: &RawJson, limits: &Limits) -> Validated {
    let text = value.get();
    if text.len() > limits.max_payload {
        let rule = Rule::TooLong {
            bytes: text.len(),
            most: limits.max_payload,
        };
        return Err(InvalidInput::unquoted(field, rule));
    }
    // A text of n bytes nests at most n/2 deep: most payloads need no look.
    if text.len() > 2 * MAX_DEPTH && depth(text) > MAX_DEPTH {
        let rule = Rule::TooDeep { most: MAX_DEPTH };
        return Err(InvalidInput::unquoted(field, rule));
    }
    Ok(())
}

/// How deep the arrays and objects of a well-formed JSON text nest.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth -= 1,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

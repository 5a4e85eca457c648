//! Redaction in JSON as text: what is not redacted stays byte for byte, numbers and white space included.

mod walk;

use std::ops::Range;

use serde_json::value::RawValue;

use super::{
    Typed,
    marks::{self, Edit},
    text::Pass,
};

/// JSON with what is to be hidden replaced; `None` if that is nothing. `json` is valid.
pub(super) fn rewrite(json: &str, pass: &Pass<'_>, depth: u8) -> Option<String> {
    marks::apply(json, edits(json, pass, depth, false))
}

/// What is to be replaced in JSON, for whoever has more to replace. `depth` texts are around it; `plain` says that one is plain text.
pub(super) fn edits(json: &str, pass: &Pass<'_>, depth: u8, plain: bool) -> Vec<Edit> {
    walk::Walk::new(json, pass, depth, plain).run()
}

/// Where a text that is no JSON as a whole holds objects and lists of it, in their order.
pub(super) fn islands(text: &str) -> Vec<Range<usize>> {
    /// A text that was cut off is open in so many places at the most.
    const OPEN: usize = 32;
    let (mut found, mut at, mut open) = (Vec::new(), 0, 0);
    while let Some(next) = text.as_bytes()[at..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
        at += next;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(_)) => {
                let end = at + values.byte_offset();
                found.push(at..end);
                at = end;
            }
            // What was read up to there is no JSON, and no part of it is looked at twice.
            Some(Err(error)) if error.is_syntax() => at += offset(&text[at..], &error).saturating_sub(1).max(1),
            // It is cut off; what is in it may be whole.
            Some(Err(_)) if open < OPEN => {
                open += 1;
                at += 1;
            }
            _ => break,
        }
    }
    found
}

/// Where in a text an error is.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = error.line().saturating_sub(1);
    let line = lines
        .checked_sub(1)
        .map_or(0, |last| text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').nth(last).map_or(0, |(at, _)| at + 1));
    (line + error.column()).min(text.len())
}

/// What stands in the place of a hidden value; `None` for one that shows nothing.
pub(super) fn hidden(value: &str, typed: Typed) -> Option<&'static str> {
    match (typed, value.as_bytes().first()?) {
        (_, b'n') => None,
        (_, b'"') if value == r#""""# => None,
        (Typed::Null, _) => Some("null"),
        (Typed::Same, b't' | b'f') => Some("false"),
        (Typed::Same, b'{') => Some("{}"),
        (Typed::Same, b'[') => Some("[]"),
        (Typed::Same, b'-' | b'0'..=b'9') => Some("0"),
        _ => Some(r#""[redacted:key]""#),
    }
}

/// Past the closing quote of the string that begins at `start`.
fn end_of_string(json: &str, start: usize) -> usize {
    let bytes = json.as_bytes();
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// A string of JSON as text. Half of a surrogate pair is no text in Rust: it becomes the sign for what cannot be shown.
fn decoded(string: &str) -> Option<String> {
    serde_json::from_str(string).ok().or_else(|| {
        let mut plain = String::with_capacity(string.len());
        let mut rest = string;
        while let Some(at) = rest.find('\\') {
            let (head, escape) = rest.split_at(at);
            let surrogate = matches!(escape.as_bytes(), [_, b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', _, _, ..]);
            plain.push_str(head);
            let len = if surrogate { 6 } else { 2 };
            plain.push_str(if surrogate { "\\ufffd" } else { escape.get(..len)? });
            rest = escape.get(len..)?;
        }
        plain.push_str(rest);
        serde_json::from_str(&plain).ok()
    })
}

fn encoded(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

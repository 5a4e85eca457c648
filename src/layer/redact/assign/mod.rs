//! Values in plain text that stand under keys: `key=value`, `key: value`, `"key": "value"`, `--key value`, `<key>value</key>`.
//!
//! Nothing here knows which language a text is in. Where two readings differ, the longer value is taken.

mod key;
mod value;
mod word;

use std::{collections::HashMap, ops::Range};

use self::{
    key::{Key, Sign},
    value::Around,
};
use super::keys::{Keys, last_word};

/// What the key of a pair is called that names another: `{"name": "password", "value": "…"}`.
pub(super) const NAMES: &[&str] =
    &["attribute", "field", "header", "id", "key", "label", "name", "option", "param", "parameter", "property", "setting", "variable"];

/// What its value is called.
pub(super) const VALUES: &[&str] = &["content", "contents", "data", "default", "string", "text", "val", "value", "values"];

/// The longest key, in bytes. Of a longer one the end counts.
pub(super) const LONGEST_KEY: usize = 128;

/// Whether a text may be the name of something.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_KEY && text.bytes().all(|byte| key::part(byte) || byte == b' ')
}

/// How far after its name the value of a pair may stand.
const PAIR: usize = 512;

/// Where values stand that are hidden, in their order.
pub(super) fn values(text: &str, keys: &Keys) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if keys.is_empty() {
        return found;
    }
    let mut closing = None;
    // Up to where a value belongs to a name that was said before.
    let mut pair = 0;
    // The end of the line that was looked at last.
    let mut line = 0;
    let mut at = 0;
    while let Some(key) = Key::next(text, at) {
        at = key.chunk.end;
        let Some((sign, start)) = key.sign(text) else { continue };
        let word = if matches!(sign, Sign::Is { .. }) { last_word(&text[key.chunk.clone()]) } else { "".into() };
        let names = NAMES.contains(&&*word);
        let hidden = keys.hides(&text[key.range.clone()]) || key.joined(text, keys) || (start <= pair && VALUES.contains(&&*word));
        if names && !hidden {
            pair = if keys.hides(value::name(text, start)) { start + PAIR } else { 0 };
        }
        if !hidden {
            continue;
        }
        let range = match sign {
            Sign::Element => {
                let ends: &HashMap<&str, usize> = closing.get_or_insert_with(|| elements(text));
                value::element(text, &text[key.chunk.clone()], start, ends)
            }
            _ => {
                if start > line {
                    line = start + key::run(text, start, |byte| !matches!(byte, b'\n' | b'\r'));
                }
                value::of(text, start, line, &Around::of(text, &key, sign))
            }
        };
        if let Some(range) = range {
            at = at.max(range.end);
            found.push(range);
        }
    }
    found
}

/// Where each element is closed for the last time.
fn elements(text: &str) -> HashMap<&str, usize> {
    text.match_indices("</").map(|(at, _)| (value::closed(text, at), at)).collect()
}

//! Redaction in JSON as text: what is not redacted stays byte for byte, numbers and white space included.

use std::ops::Range;

use super::redactor::{Mode, Redactor};

/// JSON with what is to be hidden replaced; `None` if that is nothing. `json` is valid.
pub(super) fn rewrite(json: &str, redactor: &Redactor, mode: Mode) -> Option<String> {
    let mut walk = Walk { json, at: 0, copied: 0, out: String::new(), open: Vec::new(), hide_next: false };
    walk.run(redactor, mode);
    if walk.copied == 0 && walk.out.is_empty() {
        return None;
    }
    walk.out.push_str(&json[walk.copied..]);
    Some(walk.out)
}

struct Walk<'a> {
    json: &'a str,
    at: usize,
    /// Up to where the input is in the output, as it was or replaced.
    copied: usize,
    out: String,
    open: Vec<Open>,
    /// Whether the next value belongs to a key whose values are hidden.
    hide_next: bool,
}

enum Open {
    Array,
    Object {
        /// Whether what comes next is a key.
        key: bool,
        /// Keys that were replaced, so that no two are the same.
        replaced: Vec<String>,
    },
}

impl Walk<'_> {
    fn run(&mut self, redactor: &Redactor, mode: Mode) {
        while let Some(&byte) = self.json.as_bytes().get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b':' => self.at += 1,
                b',' => {
                    if let Some(Open::Object { key, .. }) = self.open.last_mut() {
                        *key = true;
                    }
                    self.at += 1;
                }
                b'}' | b']' => {
                    self.open.pop();
                    self.at += 1;
                }
                b'"' if matches!(self.open.last(), Some(Open::Object { key: true, .. })) => self.key(redactor),
                _ if std::mem::take(&mut self.hide_next) => {
                    let range = self.at..self.end_of_value();
                    if let Some(instead) = hidden(&self.json[range.clone()], mode) {
                        self.replace(range.clone(), instead);
                    }
                    self.at = range.end;
                }
                b'{' => {
                    self.open.push(Open::Object { key: true, replaced: Vec::new() });
                    self.at += 1;
                }
                b'[' => {
                    self.open.push(Open::Array);
                    self.at += 1;
                }
                b'"' => {
                    let range = self.at..end_of_string(self.json, self.at);
                    let changed = decoded(&self.json[range.clone()]).and_then(|text| redactor.within(&text, mode.deeper()));
                    if let Some(text) = changed {
                        self.replace(range.clone(), &encoded(&text));
                    }
                    self.at = range.end;
                }
                _ => {
                    let range = self.at..self.end_of_value();
                    if let Some(name) = redactor.number(&self.json[range.clone()]) {
                        let instead = match mode.typed {
                            super::Typed::Marker => encoded(&super::redactor::marker(name)),
                            super::Typed::Null => "null".to_owned(),
                            super::Typed::Same => "0".to_owned(),
                        };
                        self.replace(range.clone(), &instead);
                    }
                    self.at = range.end;
                }
            }
        }
    }

    fn key(&mut self, redactor: &Redactor) {
        let range = self.at..end_of_string(self.json, self.at);
        self.at = range.end;
        let Some(Open::Object { key, replaced }) = self.open.last_mut() else { return };
        *key = false;
        let Some(name) = decoded(&self.json[range.clone()]) else { return };
        self.hide_next = redactor.hides(&name);
        let changed = redactor.text_changed(&name);
        let mut now = changed.clone().unwrap_or_else(|| name.clone());
        if now.contains(super::redactor::MARKER) {
            let base = now.clone();
            let mut count = 1;
            while replaced.contains(&now) {
                count += 1;
                now = format!("{base} {count}");
            }
            replaced.push(now.clone());
        }
        if now != name {
            self.replace(range, &encoded(&now));
        }
    }

    fn replace(&mut self, range: Range<usize>, instead: &str) {
        if self.json[range.clone()] == *instead {
            return;
        }
        self.out.push_str(&self.json[self.copied..range.start]);
        self.out.push_str(instead);
        self.copied = range.end;
    }

    /// Where the value that begins here ends.
    fn end_of_value(&self) -> usize {
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        let mut depth = 0_usize;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(self.json, at),
                b'{' | b'[' => {
                    depth += 1;
                    at += 1;
                    continue;
                }
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    at += 1;
                }
                b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                    at += 1;
                    continue;
                }
                _ => {
                    at += bytes[at..].iter().take_while(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')).count();
                }
            }
            if depth == 0 {
                break;
            }
        }
        at
    }
}

/// What stands in the place of a hidden value; `None` for one that shows nothing.
fn hidden(value: &str, mode: Mode) -> Option<&'static str> {
    use super::Typed;

    match (mode.typed, value.as_bytes().first()?) {
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

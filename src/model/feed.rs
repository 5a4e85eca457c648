//! The [canonical text](super::canonical) of JSON, written somewhere without being held: what a hash is made of.

use std::{borrow::Cow, io::Write};

use serde::de::Error as _;
use serde_json::{Error, Value};
use smallvec::SmallVec;

/// As deep as JSON is read anywhere in this crate.
const DEPTH: usize = 128;

/// Writes the canonical text of `json`. Allocates nothing where keys and strings hold no escapes and objects are small.
///
/// # Errors
///
/// As for [`canonical`](super::canonical::canonical), after a part of it may have been written; and if writing fails. Numbers that are
/// too large for any type are no error here.
pub(crate) fn feed(json: &str, out: &mut impl Write) -> Result<(), Error> {
    let mut reader = Reader { text: json, at: 0 };
    reader.value(DEPTH, out)?;
    reader.space();
    if reader.at == json.len() { Ok(()) } else { Err(broken()) }
}

/// As [`feed`], for a value that is there already.
pub(crate) fn feed_value(json: &Value, out: &mut impl Write) -> Result<(), Error> {
    match json {
        Value::Array(items) => {
            put(out, "[")?;
            for (at, item) in items.iter().enumerate() {
                comma(at, out)?;
                feed_value(item, out)?;
            }
            put(out, "]")
        }
        Value::Object(fields) => {
            let mut fields: SmallVec<[(&str, &Value); 8]> = fields.iter().map(|(key, value)| (key.as_str(), value)).collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            put(out, "{")?;
            for (at, (key, value)) in fields.iter().enumerate() {
                comma(at, out)?;
                serde_json::to_writer(&mut *out, key)?;
                put(out, ":")?;
                feed_value(value, out)?;
            }
            put(out, "}")
        }
        leaf => serde_json::to_writer(out, leaf),
    }
}

fn put(out: &mut impl Write, text: &str) -> Result<(), Error> {
    out.write_all(text.as_bytes()).map_err(Error::io)
}

fn comma(at: usize, out: &mut impl Write) -> Result<(), Error> {
    if at > 0 { put(out, ",") } else { Ok(()) }
}

#[cold]
fn broken() -> Error {
    Error::custom("no JSON that can be told apart from any other")
}

/// Reads each value at most once for each level that it is nested in: to find its end, and to write it.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// What comes next but for space, which is passed.
    fn next(&mut self) -> u8 {
        self.space();
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn value(&mut self, depth: usize, out: &mut impl Write) -> Result<(), Error> {
        self.space();
        match self.peek() {
            b'{' | b'[' if depth == 0 => Err(broken()),
            b'{' => self.object(depth - 1, out),
            b'[' => self.array(depth - 1, out),
            b'"' => write_string(self.string()?, out),
            _ => {
                let start = self.at;
                self.pass_leaf();
                let leaf = &self.text[start..self.at];
                if is_leaf(leaf) { put(out, leaf) } else { Err(broken()) }
            }
        }
    }

    fn array(&mut self, depth: usize, out: &mut impl Write) -> Result<(), Error> {
        self.at += 1;
        put(out, "[")?;
        self.space();
        if self.peek() == b']' {
            self.at += 1;
            return put(out, "]");
        }
        loop {
            self.value(depth, out)?;
            match self.next() {
                b',' => put(out, ",")?,
                b']' => return put(out, "]"),
                _ => return Err(broken()),
            }
        }
    }

    fn object(&mut self, depth: usize, out: &mut impl Write) -> Result<(), Error> {
        self.at += 1;
        let mut fields: SmallVec<[(Cow<'a, str>, usize, usize); 8]> = SmallVec::new();
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
            return put(out, "{}");
        }
        loop {
            self.space();
            let key = self.string()?;
            if self.next() != b':' {
                return Err(broken());
            }
            self.space();
            let start = self.at;
            self.pass();
            fields.push((key, start, self.at));
            match self.next() {
                b',' => {}
                b'}' => break,
                _ => return Err(broken()),
            }
        }
        fields.sort_unstable();
        if fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(broken());
        }
        for (at, (key, start, end)) in fields.into_iter().enumerate() {
            put(out, if at == 0 { "{" } else { "," })?;
            write_string(key, out)?;
            put(out, ":")?;
            let mut value = Reader { text: self.text, at: start };
            value.value(depth, out)?;
            // Where it ends was found without looking closely.
            if value.at != end {
                return Err(broken());
            }
        }
        put(out, "}")
    }

    /// Passes a value, whatever is in it.
    fn pass(&mut self) {
        match self.peek() {
            b'"' => self.pass_string(),
            b'{' | b'[' => {
                let mut open = 0_usize;
                loop {
                    match self.peek() {
                        b'"' => {
                            self.pass_string();
                            continue;
                        }
                        b'{' | b'[' => open += 1,
                        b'}' | b']' => open -= 1,
                        _ if self.at >= self.text.len() => return,
                        _ => {}
                    }
                    self.at += 1;
                    if open == 0 {
                        return;
                    }
                }
            }
            _ => self.pass_leaf(),
        }
    }

    fn pass_leaf(&mut self) {
        while self.at < self.text.len() && !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn pass_string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = self.at.min(bytes.len());
    }

    /// A string, borrowed where it is written as it is.
    fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        if self.peek() != b'"' {
            return Err(broken());
        }
        let start = self.at;
        self.pass_string();
        let written = self.text.get(start..self.at).ok_or_else(broken)?;
        let plain = |byte: u8| byte >= b' ' && byte != b'\\' && byte != b'"';
        match written.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) if text.bytes().all(plain) => Ok(Cow::Borrowed(text)),
            _ => serde_json::from_str(written).map(Cow::Owned),
        }
    }
}

fn write_string(string: Cow<'_, str>, out: &mut impl Write) -> Result<(), Error> {
    match string {
        Cow::Borrowed(text) => {
            put(out, "\"")?;
            put(out, text)?;
            put(out, "\"")
        }
        Cow::Owned(text) => serde_json::to_writer(out, &text),
    }
}

fn is_leaf(text: &str) -> bool {
    if matches!(text, "true" | "false" | "null") {
        return true;
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text.starts_with('0')) {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let length = digits(exponent);
        return length > 0 && length == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::model::canonical::{canonical, tests::json};

    fn fed(json: &str) -> Result<String, Error> {
        let mut out = Vec::new();
        feed(json, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_cannot_be_read_strictly_is_an_error() {
        for text in ["", "{", "{\"a\":1,\"\\u0061\":2}", "[1,]", "nul", "1 2", "{\"a\":{\"k\":1,\"k\":1}}", "{\"a\" 1}", "\"\\ud800\""] {
            assert!(fed(text).is_err(), "{text}");
        }
        let nested = |depth: usize| fed(&("[".repeat(depth) + &"]".repeat(depth)));
        assert!(nested(500).is_err() && nested(DEPTH + 1).is_err() && nested(DEPTH - 1).is_ok());
    }

    #[test]
    fn it_is_the_canonical_text() {
        let text = " { \"b\" : [ 1.00 , 12345678901234567890123456789, -0.0,\t1e2 ],\n\"a\\u0062\":{\"z\":{},\"y\":[ ]}, \"a\": \"\\u00e9\\/\" , \"n\":null } ";
        assert_eq!(fed(text).unwrap(), canonical(text).unwrap());
    }

    proptest! {
        #[test]
        fn any_json_is_fed_as_its_canonical_text(value in json()) {
            let mut fed_value = Vec::new();
            feed_value(&value, &mut fed_value).unwrap();
            for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
                prop_assert_eq!(fed(&text).unwrap(), canonical(&text).unwrap());
                prop_assert_eq!(std::str::from_utf8(&fed_value).unwrap(), canonical(&text).unwrap());
            }
        }

        #[test]
        fn any_text_that_has_a_canonical_text_is_fed_as_it(text in "[\\[\\]{}:,\"a1.e \\\\-]{0,12}") {
            if let Ok(canonical) = canonical(&text) {
                prop_assert_eq!(fed(&text).unwrap(), canonical);
            }
        }

        #[test]
        fn what_is_fed_is_json_and_its_own_canonical_text(text in "[\\[\\]{}:,\"a1.eE+ \\\\u0-]{0,16}|-?[01.eE+-]{1,6}") {
            if let Ok(once) = fed(&text) {
                prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{}", text);
                prop_assert_eq!(fed(&once).unwrap(), once);
            }
        }

        #[test]
        fn what_is_broken_at_any_place_is_no_other_json(value in json(), at: prop::sample::Index, with in "[\\[\\]{}:,\"1\\\\]?") {
            let mut text = serde_json::to_string(&value).unwrap();
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places[at.index(places.len())];
            let length = text[at..].chars().next().unwrap().len_utf8();
            text.replace_range(at..at + length, &with);
            match (fed(&text), canonical(&text)) {
                // A number that is too large to be a number anywhere is still one text.
                (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("number out of range"), "{}: {}", text, error),
                (fed, canonical) => prop_assert_eq!(fed.ok(), canonical.ok(), "{}", text),
            }
        }
    }
}

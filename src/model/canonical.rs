//! One text for one JSON: keys in order, no white space, strings written in one way, numbers as they stand.
//!
//! Numbers are not read. `1.0` and `1.00` differ here, and an integer of thirty digits keeps them all: whoever compares two canonical
//! texts compares what a tool would read.

use std::{borrow::Cow, fmt};

use sha2::{Digest as _, Sha256};

use super::strict;

/// The canonical text of `json`.
///
/// # Errors
///
/// If it cannot be read strictly: not JSON, a key twice, nested deeper than 128.
pub(crate) fn canonical(json: &str) -> serde_json::Result<String> {
    // From here on the text is known to be JSON whose depth is bounded.
    strict::check(json)?;
    let mut out = String::with_capacity(json.len());
    Reader { text: json, at: 0 }.value(&mut out)?;
    Ok(out)
}

/// A SHA-256 in lower-case hexadecimal.
pub(crate) fn sha256(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths keep the parts apart, whatever they hold.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    struct Hex<'a>(&'a [u8]);

    impl fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    }

    Hex(bytes).to_string()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        bytes.get(self.at).copied().unwrap_or(0)
    }

    fn value(&mut self, out: &mut String) -> serde_json::Result<()> {
        match self.peek() {
            b'{' => self.object(out),
            b'[' => self.array(out),
            b'"' => {
                let string = self.string()?;
                write_string(&string, out)
            }
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                self.at += end;
                Ok(())
            }
        }
    }

    fn array(&mut self, out: &mut String) -> serde_json::Result<()> {
        self.at += 1;
        out.push('[');
        while !matches!(self.peek(), b']' | 0) {
            if self.text.as_bytes()[self.at] == b',' {
                self.at += 1;
                out.push(',');
            }
            self.value(out)?;
        }
        self.at += 1;
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String) -> serde_json::Result<()> {
        self.at += 1;
        let mut fields: Vec<(Cow<'a, str>, String)> = Vec::new();
        while !matches!(self.peek(), b'}' | 0) {
            if self.text.as_bytes()[self.at] == b',' {
                self.at += 1;
                self.peek();
            }
            let key = self.string()?;
            self.peek();
            self.at += 1;
            let mut value = String::new();
            self.value(&mut value)?;
            fields.push((key, value));
        }
        self.at += 1;
        fields.sort();
        out.push('{');
        for (i, (key, value)) in fields.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_string(key, out)?;
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Ok(())
    }

    fn string(&mut self) -> serde_json::Result<Cow<'a, str>> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        while self.at < bytes.len() && bytes[self.at] != b'"' {
            escaped |= bytes[self.at] == b'\\';
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(bytes.len());
        match escaped {
            false if self.at - start >= 2 => Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1])),
            _ => serde_json::from_str(&self.text[start..self.at]).map(Cow::Owned),
        }
    }
}

fn write_string(string: &str, out: &mut String) -> serde_json::Result<()> {
    out.push_str(&serde_json::to_string(string)?);
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn keys_are_ordered_strings_written_in_one_way_and_numbers_left_alone() {
        let text = "{ \"b\" : [ 1.00 , 12345678901234567890123456789, -0.0,\t1e2 ],\n\"a\\u0062\":{\"z\":{},\"y\":[ ]}, \"a\": \"\\u00e9\\/\" , \"n\":null }";
        assert_eq!(
            canonical(text).unwrap(),
            r#"{"a":"é/","ab":{"y":[],"z":{}},"b":[1.00,12345678901234567890123456789,-0.0,1e2],"n":null}"#
        );
        assert_eq!(canonical(" true ").unwrap(), "true");
    }

    #[test]
    fn what_cannot_be_read_strictly_has_no_canonical_text() {
        for text in ["", "{", "{\"a\":1,\"\\u0061\":2}", "[1,]", "nul", "1 2"] {
            assert!(canonical(text).is_err(), "{text}");
        }
        assert!(canonical(&("[".repeat(500) + &"]".repeat(500))).is_err());
    }

    pub(in crate::model) fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_canonical_text_is_the_same_json_and_its_own_canonical_text(value in json()) {
            for text in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
                let once = canonical(&text).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Value>(&once).unwrap(), &value);
                prop_assert_eq!(&canonical(&once).unwrap(), &once);
            }
        }
    }
}

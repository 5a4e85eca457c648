//! The [canonical text](super::canonical) of JSON, written somewhere without being held: what a hash is made of.

use std::{borrow::Cow, fmt, io::Write};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Value, value::RawValue};
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
    text(json, DEPTH, out)
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

fn text(json: &str, depth: usize, out: &mut impl Write) -> Result<(), Error> {
    let json = json.trim_matches([' ', '\t', '\n', '\r']);
    let mut reader = serde_json::Deserializer::from_str(json);
    match json.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => return Err(Error::custom("nested too deeply")),
        Some(b'{') => {
            put(out, "{")?;
            reader.deserialize_map(Fields { depth: depth - 1, out })?;
            put(out, "}")?;
        }
        Some(b'[') => {
            put(out, "[")?;
            reader.deserialize_seq(Items { depth: depth - 1, out })?;
            put(out, "]")?;
        }
        Some(b'"') => {
            let string = reader.deserialize_str(Text)?;
            serde_json::to_writer(out, &string)?;
        }
        _ => {
            let leaf = <&RawValue as serde::Deserialize>::deserialize(&mut reader)?;
            put(out, leaf.get())?;
        }
    }
    reader.end()
}

struct Items<'a, W> {
    depth: usize,
    out: &'a mut W,
}

impl<'de, W: Write> Visitor<'de> for Items<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut at = 0;
        while let Some(item) = items.next_element::<&RawValue>()? {
            comma(at, self.out).and_then(|()| text(item.get(), self.depth, self.out)).map_err(A::Error::custom)?;
            at += 1;
        }
        Ok(())
    }
}

struct Fields<'a, W> {
    depth: usize,
    out: &'a mut W,
}

impl<'de, W: Write> Visitor<'de> for Fields<'_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: SmallVec<[(Cow<'de, str>, &'de RawValue); 8]> = SmallVec::new();
        while let Some(key) = map.next_key_seed(Text)? {
            fields.push((key, map.next_value()?));
        }
        fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        if fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(A::Error::custom("a key stands twice in one object"));
        }
        for (at, (key, value)) in fields.iter().enumerate() {
            let mut field = || {
                comma(at, self.out)?;
                serde_json::to_writer(&mut *self.out, key)?;
                put(self.out, ":")?;
                text(value.get(), self.depth, self.out)
            };
            field().map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// A string, borrowed where it is written as it is.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    }
}

//! Reading JSON into a [`Value`] without losing anything silently: a key that stands twice, or an integer that no `i64` or `u64`
//! holds, is an error. Depth is bounded by `serde_json`'s own limit of 128.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses `text` strictly.
pub(crate) fn parse(text: &str) -> serde_json::Result<Value> {
    let value = parse_rounded(text)?;
    match unheld_integer(text) {
        Some(_) => Err(Error::custom("an integer fits no 64-bit number and would be rounded; send it as a string")),
        None => Ok(value),
    }
}

/// Checks that `text` is JSON that can be told apart from any other: no key twice, depth bounded. Numbers may be of any size.
pub(crate) fn check(text: &str) -> serde_json::Result<()> {
    parse_rounded(text).map(drop)
}

/// As [`check`], to look at what is kept as text: integers that fit no 64-bit number are rounded here.
pub(crate) fn parse_rounded(text: &str) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a [`Value`] out of any format, and refuses a key that stands twice.
pub(crate) struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if EXACT_NUMBERS && key == NUMBER_TOKEN {
                return access.next_value::<String>()?.parse().map(Value::Number).map_err(A::Error::custom);
            }
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {:?} stands twice in one object", Cut(&key))));
            }
            map.insert(key, access.next_value_seed(Self)?);
        }
        Ok(Value::Object(map))
    }
}

/// Whether somebody in the build turned on `serde_json`'s `arbitrary_precision`, which keeps numbers as text: nothing is ever rounded,
/// and a number comes to a visitor as an object of one key.
const EXACT_NUMBERS: bool = std::mem::size_of::<Number>() > 16;
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// The first integer of valid JSON `text` that neither an `i64` nor a `u64` holds; `serde_json` would make it a rounded `f64`.
fn unheld_integer(text: &str) -> Option<&str> {
    if EXACT_NUMBERS {
        return None;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    at += 1;
                }
                // Eighteen digits always fit.
                if at - start > 18 {
                    let number = &text[start..at];
                    let integer = !number.contains(['.', 'e', 'E']);
                    if integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                        return Some(number);
                    }
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// A text for a message: at most 64 characters of it.
struct Cut<'a>(&'a str);

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(64) {
            None => fmt::Debug::fmt(self.0, f),
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_as_it_does_with_serde_json() {
        for text in ["null", "true", "[1,-2,3.5]", r#"{"a":{"b":[{}]},"c":"x\n\u00e9"}"#, "9007199254740993", "-0.0", "1.0"] {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error_however_it_is_spelt() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"k":1,"k":1}}]"#] {
            assert!(parse(text).unwrap_err().to_string().contains("stands twice"), "{text}");
        }
    }

    #[test]
    fn an_integer_is_exact_or_an_error() {
        for text in ["-9223372036854775808", "18446744073709551615", r#"{"s":"18446744073709551616"}"#, "1e300"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["18446744073709551616", "-9223372036854775809", r#"{"\"":[1,123456789012345678901234567890]}"#, "1e400"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(parse(&deep).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn a_message_does_not_carry_a_huge_key() {
        let key = "k".repeat(10_000);
        let message = parse(&format!(r#"{{"{key}":1,"{key}":2}}"#)).unwrap_err().to_string();
        assert!(message.len() < 200, "{}", message.len());
    }
}

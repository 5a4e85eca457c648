//! JSON in which two readers cannot see different things.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// The deepest nesting, as deep as arguments may be anywhere.
const DEPTH: usize = 128;

/// The text as the JSON object that it is, if it is one and no key stands twice in it, at any depth. No number is looked at.
pub(super) fn object(text: &str) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    (is_object(raw) && is_exact(raw, DEPTH)).then_some(raw)
}

pub(super) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

fn is_exact(raw: &RawValue, depth: usize) -> bool {
    let text = raw.get();
    if !text.starts_with(['{', '[']) {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    serde_json::from_str::<Parts<'_>>(text).is_ok_and(|parts| parts.0.iter().all(|part| is_exact(part, depth)))
}

/// The values right within an object or an array.
struct Parts<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Parts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Parts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or an array")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts<'de>, A::Error> {
                let (mut parts, mut keys) = (Vec::new(), HashSet::new());
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    if !keys.insert(key.0) {
                        return Err(A::Error::custom("a key stands twice"));
                    }
                    parts.push(map.next_value()?);
                }
                Ok(Parts(parts))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element()? {
                    parts.push(part);
                }
                Ok(Parts(parts))
            }
        }

        deserializer.deserialize_any(Read)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_exact_if_no_key_stands_twice_however_it_is_spelt() {
        for text in ["{}", " {\"a\":1,\"b\":{\"a\":[{\"a\":1},{\"a\":2}]}} ", r#"{"n":18446744073709551616,"m":1e400,"z":-0.0}"#] {
            assert_eq!(object(text).map(RawValue::get), Some(text.trim()));
        }
        for text in ["", "[]", "1", "null", r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":1}"#, r#"{"x":[{"k":1,"k":2}]}"#, "{} {}", "{\"a\":1"] {
            assert!(object(text).is_none(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(object(&deep(100)).is_some());
        assert!(object(&deep(200)).is_none());
        assert!(object(&deep(100_000)).is_none());
    }
}

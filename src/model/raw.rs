use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

/// A JSON object that keeps what it was given: the order of its keys and the text of its values.
///
/// Used for `_meta` and for fields that this crate does not know, so that they leave exactly as they came.
///
/// ```
/// use toolstack::model::RawObject;
///
/// let meta: RawObject = serde_json::from_str(r#"{"z":1.0,"a":9007199254740993}"#)?;
/// assert_eq!(meta.get::<f64>("z")?, Some(1.0));
/// assert_eq!(serde_json::to_string(&meta)?, r#"{"z":1.0,"a":9007199254740993}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct RawObject(Vec<(Box<str>, Box<RawValue>)>);

/// A value that could not be read or written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("the field `{key}`: {source}")]
#[non_exhaustive]
pub struct RawObjectError {
    key: Box<str>,
    source: serde_json::Error,
}

impl RawObject {
    /// An object without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of a field's value.
    #[must_use]
    pub fn get_raw(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(k, _)| **k == *key).map(|(_, value)| &**value)
    }

    /// Reads a field.
    ///
    /// # Errors
    ///
    /// If the field is there and is not a `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, RawObjectError> {
        let Some(raw) = self.get_raw(key) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|source| RawObjectError { key: key.into(), source })
    }

    /// Writes a field, in the place of one of the same key.
    ///
    /// # Errors
    ///
    /// If `value` refuses to be serialised.
    pub fn insert<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), RawObjectError> {
        let raw = serde_json::value::to_raw_value(value).map_err(|source| RawObjectError { key: key.into(), source })?;
        self.insert_raw(key, raw);
        Ok(())
    }

    /// Writes a field as JSON text, in the place of one of the same key.
    pub fn insert_raw(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(k, _)| **k == *key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.into(), value)),
        }
    }

    /// Takes a field out.
    pub fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(k, _)| **k == *key)?;
        Some(self.0.remove(at).1)
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Takes a field out and reads it; used to pick the known fields out of an object and keep the rest.
    pub(super) fn take<T: DeserializeOwned, E: serde::de::Error>(&mut self, key: &str) -> Result<Option<T>, E> {
        match self.remove(key) {
            None => Ok(None),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|e| E::custom(format_args!("`{key}`: {e}"))),
        }
    }

    /// As [`take`](Self::take), for a field that must be there.
    pub(super) fn require<T: DeserializeOwned, E: serde::de::Error>(&mut self, key: &'static str) -> Result<T, E> {
        self.take(key)?.ok_or_else(|| E::missing_field(key))
    }

    /// Writes all fields into a map that is being serialised.
    pub(super) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(&**key, value))
    }
}

/// What is left of an object once its known fields were taken; boxed, since most objects have nothing else.
pub(super) fn rest(fields: RawObject) -> Option<Box<RawObject>> {
    (!fields.is_empty()).then(|| Box::new(fields))
}

/// The serde form of a type whose fields are all optional, and which keeps those that it does not know in `extra`.
macro_rules! optional_fields {
    ($type:ident { $($field:ident: $key:literal),* $(,)? }) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;

                let mut map = serializer.serialize_map(None)?;
                $(if let Some(value) = &self.$field {
                    map.serialize_entry($key, value)?;
                })*
                if let Some(extra) = &self.extra {
                    extra.serialize_into(&mut map)?;
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut fields = $crate::model::RawObject::deserialize(deserializer)?;
                $(let $field = fields.take::<Option<_>, D::Error>($key)?.flatten();)*
                Ok(Self { $($field,)* extra: $crate::model::raw::rest(fields) })
            }
        }
    };
}

pub(super) use optional_fields;

impl Eq for RawObject {}

impl PartialEq for RawObject {
    /// The same fields with the same text in the same order.
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(|(k, v)| (k, v.get())).eq(other.iter().map(|(k, v)| (k, v.get())))
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<RawObject, A::Error> {
                let mut fields: Vec<(Box<str>, Box<RawValue>)> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some(key) = access.next_key::<Box<str>>()? {
                    // A set only where a scan would be slow: most objects have a handful of keys.
                    let twice = if fields.len() < 16 {
                        fields.iter().any(|(k, _)| *k == key)
                    } else {
                        if seen.is_empty() {
                            seen.extend(fields.iter().map(|(k, _)| k.clone()));
                        }
                        !seen.insert(key.clone())
                    };
                    if twice {
                        return Err(serde::de::Error::custom("a key stands twice in one object"));
                    }
                    fields.push((key, access.next_value()?));
                }
                Ok(RawObject(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl fmt::Debug for RawObject {
    /// The keys only: the values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_refused_in_small_and_large_objects() {
        assert!(serde_json::from_str::<RawObject>(r#"{"a":1,"a":2}"#).is_err());
        let many = (0..40).map(|i| format!("\"k{}\":1", i % 39)).collect::<Vec<_>>().join(",");
        assert!(serde_json::from_str::<RawObject>(&format!("{{{many}}}")).is_err());
    }

    #[test]
    fn a_field_is_replaced_in_its_place() {
        let mut object: RawObject = serde_json::from_str(r#"{"a":1,"b":2}"#).unwrap();
        object.insert("a", "x").unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"a":"x","b":2}"#);
    }

    #[test]
    fn debug_shows_keys_only() {
        let object: RawObject = serde_json::from_str(r#"{"token":"s3cret"}"#).unwrap();
        assert_eq!(format!("{object:?}"), r#"{"token"}"#);
    }
}

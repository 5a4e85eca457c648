use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

use super::{RawObject, ToolAnnotations, ToolName, raw::rest, strict};

/// What a tool is: the text that a model reads and the facts that layers decide by.
///
/// The schemas are raw JSON Schema (2020-12 unless they say otherwise) and leave as they came, byte for byte.
///
/// ```
/// use serde_json::json;
/// use toolstack::model::{ToolName, ToolSpec};
///
/// let spec = ToolSpec::new(ToolName::new("add")?).with_input_schema(&json!({ "type": "object" }))?;
/// assert!(ToolSpec::new(ToolName::new("add")?).with_input_schema(&json!("nonsense")).is_err());
/// # let _ = spec; Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolSpec {
    /// What callers call it by.
    pub name: ToolName,
    /// A name for people.
    pub title: Option<String>,
    /// What it does and when to use it, for the model.
    pub description: Option<String>,
    input_schema: Arc<RawValue>,
    output_schema: Option<Arc<RawValue>>,
    /// Hints about what it does.
    pub annotations: ToolAnnotations,
    /// Pictures of it.
    pub icons: Vec<Icon>,
    /// Words that layers select by. They stay in the process: a client never sees them.
    pub tags: BTreeSet<String>,
    /// `_meta`.
    pub meta: RawObject,
    /// Fields that this crate does not know, where there are any.
    extra: Option<Box<RawObject>>,
}

/// A picture of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// Its address, or the picture itself in a `data:` URI.
    pub src: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// The sizes that it is made for, such as `48x48` or `any`.
    pub sizes: Vec<String>,
    /// The background that it is made for: `light` or `dark`.
    pub theme: Option<String>,
    /// Fields that this crate does not know, where there are any.
    extra: Option<Box<RawObject>>,
}

impl Icon {
    /// The picture at this address.
    #[must_use]
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None, extra: None }
    }
}

impl Serialize for Icon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("src", &self.src)?;
        if let Some(mime_type) = &self.mime_type {
            map.serialize_entry("mimeType", mime_type)?;
        }
        if !self.sizes.is_empty() {
            map.serialize_entry("sizes", &self.sizes)?;
        }
        if let Some(theme) = &self.theme {
            map.serialize_entry("theme", theme)?;
        }
        if let Some(extra) = &self.extra {
            extra.serialize_into(&mut map)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Icon {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = RawObject::deserialize(deserializer)?;
        Ok(Self {
            src: fields.require("src")?,
            mime_type: fields.take::<Option<_>, _>("mimeType")?.flatten(),
            sizes: fields.take("sizes")?.unwrap_or_default(),
            theme: fields.take::<Option<_>, _>("theme")?.flatten(),
            extra: rest(fields),
        })
    }
}

/// Why a schema cannot be the schema of a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not JSON, has a key twice, or nests deeper than 128.
    #[error("the schema cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not an object (or, for results, not a boolean either).
    #[error("a schema is a JSON object, this one is not")]
    NotAnObject,
    /// Arguments are an object, so their schema says `"type": "object"`.
    #[error("the schema of a tool's arguments must say `\"type\": \"object\"` at its root")]
    NotForAnObject,
}

/// Names one exact definition of a tool: SHA-256 over everything in its spec that a model, a person or a policy goes by.
///
/// White space and the order of keys in the schemas do not count. Two specs that differ in anything else differ here, so an approval
/// that is bound to a fingerprint ends when the tool changes under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl ToolSpec {
    /// A tool that takes an object of any kind and says nothing of itself.
    #[must_use]
    pub fn new(name: ToolName) -> Self {
        Self {
            name,
            title: None,
            description: None,
            input_schema: Arc::from(any_object()),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            icons: Vec::new(),
            tags: BTreeSet::new(),
            meta: RawObject::new(),
            extra: None,
        }
    }

    /// The schema of the arguments, as it was given.
    #[must_use]
    pub fn input_schema(&self) -> &RawValue {
        &self.input_schema
    }

    /// The schema of the structured result, as it was given.
    #[must_use]
    pub fn output_schema(&self) -> Option<&RawValue> {
        self.output_schema.as_deref()
    }

    /// This spec, with that schema for its arguments.
    ///
    /// # Errors
    ///
    /// If the schema is not a JSON object that says `"type": "object"`.
    pub fn with_input_schema<T: Serialize + ?Sized>(mut self, schema: &T) -> Result<Self, SchemaError> {
        let schema = serde_json::value::to_raw_value(schema)?;
        check_input(&schema)?;
        self.input_schema = schema.into();
        Ok(self)
    }

    /// This spec, with that schema for its structured result.
    ///
    /// # Errors
    ///
    /// If the schema is neither a JSON object nor a boolean.
    pub fn with_output_schema<T: Serialize + ?Sized>(mut self, schema: &T) -> Result<Self, SchemaError> {
        let schema = serde_json::value::to_raw_value(schema)?;
        check_output(&schema)?;
        self.output_schema = Some(schema.into());
        Ok(self)
    }

    /// This spec, with that description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// This spec, under that name.
    #[must_use]
    pub fn with_name(mut self, name: ToolName) -> Self {
        self.name = name;
        self
    }

    /// Whether the tool has this tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.contains(tag)
    }

    /// Names this exact definition.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        let mut part = |label: &str, text: &str| {
            // Lengths keep the parts apart, whatever they hold.
            hash.update((label.len() as u64).to_le_bytes());
            hash.update(label);
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        part("name", &self.name);
        if let Some(title) = &self.title {
            part("title", title);
        }
        if let Some(description) = &self.description {
            part("description", description);
        }
        part("inputSchema", &canonical(&self.input_schema));
        if let Some(schema) = &self.output_schema {
            part("outputSchema", &canonical(schema));
        }
        part("annotations", &serde_json::to_string(&self.annotations).unwrap_or_default());
        part("icons", &serde_json::to_string(&self.icons).unwrap_or_default());
        for tag in &self.tags {
            part("tag", tag);
        }
        for (key, value) in self.meta.iter() {
            part("_meta", key);
            part("", &canonical(value));
        }
        for (key, value) in self.extra.iter().flat_map(|extra| extra.iter()) {
            part("extra", key);
            part("", &canonical(value));
        }
        Fingerprint(hash.finalize().into())
    }
}

impl PartialEq for ToolSpec {
    /// Whether both are the same definition, which is what their fingerprints say.
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl Fingerprint {
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::canonical::hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

fn any_object() -> Box<RawValue> {
    RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap_or_default()
}

fn check_input(schema: &RawValue) -> Result<(), SchemaError> {
    match strict::parse_rounded(schema.get())? {
        Value::Object(schema) if schema.get("type").is_some_and(|t| t == "object") => Ok(()),
        Value::Object(_) => Err(SchemaError::NotForAnObject),
        _ => Err(SchemaError::NotAnObject),
    }
}

fn check_output(schema: &RawValue) -> Result<(), SchemaError> {
    match strict::parse_rounded(schema.get())? {
        Value::Object(_) | Value::Bool(_) => Ok(()),
        _ => Err(SchemaError::NotAnObject),
    }
}

/// The canonical text of a part; the text itself where it cannot be read.
fn canonical(json: &RawValue) -> String {
    super::canonical::canonical(json.get()).unwrap_or_else(|_| json.get().to_owned())
}

impl Serialize for ToolSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if let Some(title) = &self.title {
            map.serialize_entry("title", title)?;
        }
        if let Some(description) = &self.description {
            map.serialize_entry("description", description)?;
        }
        map.serialize_entry("inputSchema", &self.input_schema)?;
        if let Some(schema) = &self.output_schema {
            map.serialize_entry("outputSchema", schema)?;
        }
        if !self.annotations.is_empty() {
            map.serialize_entry("annotations", &self.annotations)?;
        }
        if !self.icons.is_empty() {
            map.serialize_entry("icons", &self.icons)?;
        }
        if let Some(extra) = &self.extra {
            extra.serialize_into(&mut map)?;
        }
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", &self.meta)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;

        let mut fields = RawObject::deserialize(deserializer)?;
        let input_schema: Box<RawValue> = fields.require("inputSchema")?;
        check_input(&input_schema).map_err(D::Error::custom)?;
        let output_schema: Option<Box<RawValue>> = fields.take("outputSchema")?;
        if let Some(schema) = &output_schema {
            check_output(schema).map_err(D::Error::custom)?;
        }
        Ok(Self {
            name: fields.require("name")?,
            title: fields.take("title")?,
            description: fields.take("description")?,
            input_schema: input_schema.into(),
            output_schema: output_schema.map(Arc::from),
            annotations: fields.take("annotations")?.unwrap_or_default(),
            icons: fields.take("icons")?.unwrap_or_default(),
            tags: BTreeSet::new(),
            meta: fields.take("_meta")?.unwrap_or_default(),
            extra: rest(fields),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r##"{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","$defs":{"a":{"$ref":"#/$defs/b"}},"x":9007199254740993},"outputSchema":{"anyOf":[true]},"annotations":{"readOnlyHint":false},"icons":[{"src":"data:,"}],"execution":{"taskSupport":"optional"},"_meta":{"k":1.0}}"##;

    #[test]
    fn a_spec_leaves_as_it_came() {
        let spec: ToolSpec = serde_json::from_str(FULL).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), FULL);
    }

    #[test]
    fn a_fingerprint_ignores_white_space_and_the_order_of_schema_keys_only() {
        let print = |json: &str| serde_json::from_str::<ToolSpec>(json).unwrap().fingerprint();
        let base = print(r#"{"name":"t","inputSchema":{"type":"object","a":1}}"#);
        assert_eq!(base, print(r#"{"inputSchema":{ "a" : 1, "type":"object" },"name":"t"}"#));
        for other in [
            r#"{"name":"u","inputSchema":{"type":"object","a":1}}"#,
            r#"{"name":"t","inputSchema":{"type":"object","a":2}}"#,
            r#"{"name":"t","description":"","inputSchema":{"type":"object","a":1}}"#,
            r#"{"name":"t","inputSchema":{"type":"object","a":1},"annotations":{"readOnlyHint":false}}"#,
            r#"{"name":"t","inputSchema":{"type":"object","a":1},"new":1}"#,
        ] {
            assert_ne!(base, print(other), "{other}");
        }
    }

    #[test]
    fn a_fingerprint_is_stable() {
        let spec = ToolSpec::new(ToolName::new("add").unwrap());
        assert_eq!(spec.fingerprint().to_string(), "8d3edc4ff79850fe382cdbefb74e687838e7e351e5dbdfbbad1e6bab3d2eafcb");
    }

    #[test]
    fn a_schema_with_a_number_of_any_size_stays_as_it_came() {
        let name = || ToolName::new("t").unwrap();
        let schema = r#"{"type":"object","maximum":18446744073709551616}"#;
        let raw = RawValue::from_string(schema.to_owned()).unwrap();
        let spec = ToolSpec::new(name()).with_input_schema(&raw).unwrap().with_output_schema(&raw).unwrap();
        assert_eq!((spec.input_schema().get(), spec.output_schema().unwrap().get()), (schema, schema));
        let json = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        assert_eq!(serde_json::to_string(&serde_json::from_str::<ToolSpec>(&json).unwrap()).unwrap(), json);
    }

    #[test]
    fn a_schema_has_to_be_one() {
        let name = ToolName::new("t").unwrap();
        let spec = |schema: &str| {
            let raw = RawValue::from_string(schema.to_owned()).unwrap();
            ToolSpec::new(name.clone()).with_input_schema(&raw)
        };
        assert!(spec(r#"{"type":"object"}"#).is_ok());
        assert!(matches!(spec("true"), Err(SchemaError::NotAnObject)));
        assert!(matches!(spec(r#"{"type":"array"}"#), Err(SchemaError::NotForAnObject)));
        assert!(matches!(spec("{}"), Err(SchemaError::NotForAnObject)));
        assert!(matches!(spec(r#"{"type":"object","type":"object"}"#), Err(SchemaError::Json(_))));
    }
}

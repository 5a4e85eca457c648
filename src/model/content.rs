use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};

use super::{RawObject, raw::optional_fields};

/// One block of what a tool answers with.
///
/// A block of a type that this crate does not know is kept as it came, and so are fields that it does not know.
///
/// ```
/// use toolstack::model::Content;
///
/// let json = r#"{"type":"text","text":"hello","new":9007199254740993}"#;
/// let block: Content = serde_json::from_str(json)?;
/// assert_eq!(block.as_text(), Some("hello"));
/// assert_eq!(serde_json::to_string(&block)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// A sound.
    Audio(Box<Media>),
    /// A picture.
    Image(Box<Media>),
    /// A block of a type that this crate does not know, whole.
    Other(RawObject),
    /// A resource itself.
    Resource(Box<Resource>),
    /// Where a resource is to be had.
    ResourceLink(Box<ResourceLink>),
    /// Text.
    Text(Text),
}

/// Text, and what little else a text block may carry.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// Everything else, where there is anything.
    pub extra: Option<Box<BlockExtra>>,
}

/// What any block may carry besides its content.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockExtra {
    /// Whom the block is for, and how much it matters.
    pub annotations: Option<ContentAnnotations>,
    /// `_meta`.
    pub meta: RawObject,
    /// Fields that this crate does not know.
    pub unknown: RawObject,
}

/// A picture or a sound.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Media {
    /// The bytes, in base64.
    pub data: String,
    /// What they are, such as `image/png`.
    pub mime_type: String,
    /// Everything else.
    pub extra: BlockExtra,
}

/// Where a resource is to be had.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceLink {
    /// Its address.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Everything else.
    pub extra: BlockExtra,
}

/// A resource within a block: text or, in base64, bytes.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// Its text, where it is text.
    pub text: Option<String>,
    /// Its bytes in base64, where it is not.
    pub blob: Option<String>,
    /// `_meta` of the resource, and fields of it that this crate does not know.
    pub inner: RawObject,
    /// Everything else of the block around it.
    pub extra: BlockExtra,
}

/// Whom a block is for, and how much it matters.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ContentAnnotations {
    /// Whom it is for.
    pub audience: Option<Vec<Role>>,
    /// How much it matters, from 0 to 1.
    pub priority: Option<f64>,
    /// When it last changed, in ISO 8601.
    pub last_modified: Option<String>,
    /// Fields that this crate does not know, where there are any.
    extra: Option<Box<RawObject>>,
}

optional_fields!(ContentAnnotations { audience: "audience", priority: "priority", last_modified: "lastModified" });

/// Somebody in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The model.
    Assistant,
    /// The person.
    User,
}

impl Content {
    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), extra: None })
    }

    /// A picture: bytes in base64 and their media type.
    #[must_use]
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(Box::new(Media { data: data.into(), mime_type: mime_type.into(), extra: BlockExtra::default() }))
    }

    /// A sound: bytes in base64 and their media type.
    #[must_use]
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(Box::new(Media { data: data.into(), mime_type: mime_type.into(), extra: BlockExtra::default() }))
    }

    /// A link to a resource.
    #[must_use]
    pub fn resource_link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::ResourceLink(Box::new(ResourceLink { uri: uri.into(), name: name.into(), ..ResourceLink::default() }))
    }

    /// A resource of text.
    #[must_use]
    pub fn resource(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Resource(Box::new(Resource { uri: uri.into(), text: Some(text.into()), ..Resource::default() }))
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl BlockExtra {
    /// Takes what any block may carry out of the fields; what is left is unknown.
    fn take<E: serde::de::Error>(mut fields: RawObject) -> Result<Self, E> {
        Ok(Self { annotations: fields.take("annotations")?, meta: fields.take("_meta")?.unwrap_or_default(), unknown: fields })
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        optional(map, "annotations", self.annotations.as_ref())?;
        self.unknown.serialize_into(map)?;
        optional(map, "_meta", (!self.meta.is_empty()).then_some(&self.meta))
    }
}

fn optional<M: SerializeMap, T: Serialize>(map: &mut M, key: &'static str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}

impl Serialize for Resource {
    /// The resource alone, without the block around it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uri", &self.uri)?;
        optional(&mut map, "mimeType", self.mime_type.as_ref())?;
        optional(&mut map, "text", self.text.as_ref())?;
        optional(&mut map, "blob", self.blob.as_ref())?;
        self.inner.serialize_into(&mut map)?;
        map.end()
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Other(fields) => fields.serialize_into(&mut map)?,
            Self::Text(block) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", &block.text)?;
                if let Some(extra) = &block.extra {
                    extra.serialize_into(&mut map)?;
                }
            }
            Self::Image(block) | Self::Audio(block) => {
                map.serialize_entry("type", if matches!(self, Self::Image(_)) { "image" } else { "audio" })?;
                map.serialize_entry("data", &block.data)?;
                map.serialize_entry("mimeType", &block.mime_type)?;
                block.extra.serialize_into(&mut map)?;
            }
            Self::ResourceLink(block) => {
                map.serialize_entry("type", "resource_link")?;
                map.serialize_entry("uri", &block.uri)?;
                map.serialize_entry("name", &block.name)?;
                optional(&mut map, "title", block.title.as_ref())?;
                optional(&mut map, "description", block.description.as_ref())?;
                optional(&mut map, "mimeType", block.mime_type.as_ref())?;
                optional(&mut map, "size", block.size.as_ref())?;
                block.extra.serialize_into(&mut map)?;
            }
            Self::Resource(block) => {
                map.serialize_entry("type", "resource")?;
                map.serialize_entry("resource", &**block)?;
                block.extra.serialize_into(&mut map)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = RawObject::deserialize(deserializer)?;
        let kind: String = fields.get("type").map_err(D::Error::custom)?.ok_or_else(|| D::Error::missing_field("type"))?;
        if !matches!(kind.as_str(), "text" | "image" | "audio" | "resource_link" | "resource") {
            return Ok(Self::Other(fields));
        }
        fields.remove("type");
        Ok(match kind.as_str() {
            "text" => {
                let text = fields.require("text")?;
                let extra = BlockExtra::take(fields)?;
                Self::Text(Text { text, extra: (!extra.is_empty()).then(|| Box::new(extra)) })
            }
            "resource_link" => Self::ResourceLink(Box::new(ResourceLink {
                uri: fields.require("uri")?,
                name: fields.require("name")?,
                title: fields.take("title")?,
                description: fields.take("description")?,
                mime_type: fields.take("mimeType")?,
                size: fields.take("size")?,
                extra: BlockExtra::take(fields)?,
            })),
            "resource" => {
                let mut inner: RawObject = fields.require("resource")?;
                Self::Resource(Box::new(Resource {
                    uri: inner.require("uri")?,
                    mime_type: inner.take("mimeType")?,
                    text: inner.take("text")?,
                    blob: inner.take("blob")?,
                    inner,
                    extra: BlockExtra::take(fields)?,
                }))
            }
            kind => {
                let media = Box::new(Media {
                    data: fields.require("data")?,
                    mime_type: fields.require("mimeType")?,
                    extra: BlockExtra::take(fields)?,
                });
                if kind == "image" { Self::Image(media) } else { Self::Audio(media) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_block_leaves_as_it_came() {
        for json in [
            r#"{"type":"text","text":"a"}"#,
            r#"{"type":"text","text":"a","annotations":{"audience":["user"],"priority":0.5},"x":1e400,"_meta":{"k":[1]}}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png","x":null}"#,
            r#"{"type":"audio","data":"AA==","mimeType":"audio/wav","_meta":{"k":1.0}}"#,
            r#"{"type":"resource_link","uri":"file:///a","name":"a","title":"A","size":18446744073709551615,"icons":[]}"#,
            r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"t","y":1,"_meta":{"k":1}},"z":2}"#,
            r#"{"type":"resource","resource":{"uri":"file:///a","blob":"AA=="}}"#,
            r#"{"type":"hologram","depth":3,"data":{"a":9007199254740993}}"#,
        ] {
            let block: Content = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&block).unwrap(), json);
        }
    }

    #[test]
    fn a_block_without_its_content_is_an_error_that_names_the_field() {
        for (json, field) in [
            (r#"{"text":"a"}"#, "type"),
            (r#"{"type":"text"}"#, "text"),
            (r#"{"type":"image","data":""}"#, "mimeType"),
            (r#"{"type":"resource","resource":{}}"#, "uri"),
        ] {
            let error = serde_json::from_str::<Content>(json).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}

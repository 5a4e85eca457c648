use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};
use serde_json::value::RawValue;

use super::{Content, Outcome, RawObject, Remark, blocks::Blocks, remark, shown::Hidden};
use crate::error::Refusal;

/// What came of a call: blocks of content for the model, a structured value, whether it failed, and why where a layer says so.
///
/// A result is either the tool's own, or stands for a [`Refusal`]: then `is_error` is set and the content is the refusal's message.
///
/// ```
/// use serde_json::json;
/// use toolstack::model::{Outcome, ToolResult};
///
/// let result = ToolResult::text("3");
/// assert_eq!((result.as_text().as_deref(), result.outcome()), (Some("3"), Outcome::Completed));
///
/// let result = ToolResult::structured(&json!({ "sum": 3 }))?;
/// assert_eq!(result.as_text().as_deref(), Some(r#"{"sum":3}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolResult {
    content: Blocks,
    /// Whether the tool failed, or did not run.
    pub is_error: bool,
    /// Apart, so that a result of one text is 48 bytes: it is moved often.
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Default)]
struct Rare {
    structured: Option<Box<RawValue>>,
    meta: RawObject,
    extra: RawObject,
    served_by: Option<Cow<'static, str>>,
    refusal: Option<Refusal>,
    remarks: Vec<Remark>,
}

impl fmt::Debug for Rare {
    /// Of the structured content how long it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let structured = self.structured.as_deref().map(|json| Hidden(json.get()));
        f.debug_struct("Rare")
            .field("structured", &structured)
            .field("meta", &self.meta)
            .field("extra", &self.extra)
            .field("served_by", &self.served_by)
            .field("refusal", &self.refusal)
            .field("remarks", &self.remarks)
            .finish()
    }
}

impl ToolResult {
    /// A result without content.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A result of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Blocks::One(Content::text(text)), is_error: false, rare: None }
    }

    /// The tool ran and failed; `message` tells the model why.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(message) }
    }

    /// A structured value, and the same value as text for models that read only text.
    ///
    /// # Errors
    ///
    /// If `value` refuses to be serialised.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        let json = serde_json::value::to_raw_value(value)?;
        let mut result = Self::text(json.get());
        result.set_structured(Some(json));
        Ok(result)
    }

    /// The result that stands for a refusal.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        let message = refusal.message().to_owned();
        let rare = Rare { refusal: Some(refusal), ..Rare::default() };
        Self { rare: Some(Box::new(rare)), ..Self::error(message) }
    }

    /// This result, with one block more.
    #[must_use]
    pub fn with(mut self, block: impl Into<Content>) -> Self {
        self.content.push(block.into());
        self
    }

    /// The blocks.
    #[must_use]
    pub fn content(&self) -> &[Content] {
        self.content.as_slice()
    }

    /// The blocks, to change.
    pub fn content_mut(&mut self) -> &mut [Content] {
        self.content.as_mut_slice()
    }

    /// Puts other blocks in the place of those there are.
    pub fn set_content(&mut self, content: impl IntoIterator<Item = Content>) {
        self.content = content.into_iter().collect();
    }

    /// Adds a block.
    pub fn push(&mut self, block: impl Into<Content>) {
        self.content.push(block.into());
    }

    /// The text of all text blocks, each on lines of its own; `None` where there is none.
    #[must_use]
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        let mut texts = self.content().iter().filter_map(Content::as_text);
        let first = Cow::Borrowed(texts.next()?);
        Some(texts.fold(first, |all, text| Cow::Owned(format!("{all}\n{text}"))))
    }

    /// The structured value, as JSON text.
    #[must_use]
    pub fn structured_content(&self) -> Option<&RawValue> {
        self.rare.as_ref()?.structured.as_deref()
    }

    /// Sets the structured value, or takes it away. The content stays as it is.
    pub fn set_structured(&mut self, structured: Option<Box<RawValue>>) {
        if structured.is_some() || self.rare.is_some() {
            self.rare.get_or_insert_default().structured = structured;
        }
    }

    /// Why the tool did not run, or why its result is not given.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.rare.as_ref()?.refusal.as_ref()
    }

    /// The refusal, to change. The content does not follow.
    pub fn refusal_mut(&mut self) -> Option<&mut Refusal> {
        self.rare.as_mut()?.refusal.as_mut()
    }

    /// `_meta`.
    #[must_use]
    pub fn meta(&self) -> &RawObject {
        static NONE: RawObject = RawObject::new();
        self.rare.as_ref().map_or(&NONE, |rare| &rare.meta)
    }

    /// `_meta`, to change.
    pub fn meta_mut(&mut self) -> &mut RawObject {
        &mut self.rare.get_or_insert_default().meta
    }

    /// Fields that this crate does not know.
    pub(crate) fn extra_mut(&mut self) -> Option<&mut RawObject> {
        self.rare.as_mut().map(|rare| &mut rare.extra)
    }

    /// Which layer answered in the tool's place, such as a cache; `None` where the tool itself did, and for refusals, which say
    /// [who refused](Refusal::by).
    #[must_use]
    pub fn served_by(&self) -> Option<&str> {
        self.rare.as_ref()?.served_by.as_deref()
    }

    /// Notes which layer answered in the tool's place.
    pub fn set_served_by(&mut self, layer: impl Into<Cow<'static, str>>) {
        self.rare.get_or_insert_default().served_by = Some(layer.into());
    }

    /// What layers added beside the result.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        self.rare.as_ref().map_or(&[], |rare| &rare.remarks)
    }

    /// What layers added beside the result, to change.
    pub fn remarks_mut(&mut self) -> &mut [Remark] {
        self.rare.as_mut().map_or(&mut [], |rare| &mut rare.remarks)
    }

    pub(crate) fn take_remarks(&mut self) -> Vec<Remark> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.remarks)).unwrap_or_default()
    }

    /// Adds a remark; `false` if there are [too many](Remark::MAX_COUNT).
    pub fn add_remark(&mut self, remark: Remark) -> bool {
        remark::push(&mut self.rare.get_or_insert_default().remarks, remark)
    }

    /// How the call ended.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        match self.refusal() {
            Some(refusal) => refusal.kind().into(),
            None if self.is_error => Outcome::ToolError,
            None => Outcome::Completed,
        }
    }
}

impl Serialize for ToolResult {
    /// The fields of MCP's `CallToolResult`, without `resultType`, which [`ToolResponse`](super::ToolResponse) adds. A refusal is not
    /// written: what it tells a client is the face's business.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_into(&mut map)?;
        map.end()
    }
}

impl ToolResult {
    pub(super) fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("content", self.content())?;
        if let Some(structured) = self.structured_content() {
            map.serialize_entry("structuredContent", structured)?;
        }
        if self.is_error {
            map.serialize_entry("isError", &true)?;
        }
        if let Some(rare) = &self.rare {
            rare.extra.serialize_into(map)?;
            if !rare.meta.is_empty() {
                map.serialize_entry("_meta", &rare.meta)?;
            }
        }
        Ok(())
    }

    pub(super) fn from_fields<E: serde::de::Error>(mut fields: RawObject) -> Result<Self, E> {
        let content = Blocks::from_iter(fields.take::<Vec<Content>, E>("content")?.unwrap_or_default());
        let structured = fields.remove("structuredContent");
        let is_error = fields.take("isError")?.unwrap_or(false);
        let meta: RawObject = fields.take("_meta")?.unwrap_or_default();
        let rare = (structured.is_some() || !meta.is_empty() || !fields.is_empty())
            .then(|| Box::new(Rare { structured, meta, extra: fields, ..Rare::default() }));
        Ok(Self { content, is_error, rare })
    }
}

impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_fields(RawObject::deserialize(deserializer)?)
    }
}

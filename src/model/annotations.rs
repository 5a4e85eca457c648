use super::{RawObject, raw::optional_fields};

/// Hints about what a tool does, each of which may be given or not.
///
/// An absent hint is not `false`: it survives as absent, and the methods fill in what MCP says an absent hint means. The defaults are
/// the careful ones. A hint is a claim of whoever wrote the tool; a layer lets it relax a rule only if it trusts the
/// [source](crate::tool::Source).
///
/// ```
/// use toolstack::model::ToolAnnotations;
///
/// let unsaid = ToolAnnotations::default();
/// assert!(!unsaid.is_read_only() && unsaid.is_destructive() && !unsaid.is_idempotent() && unsaid.is_open_world());
///
/// let reader: ToolAnnotations = serde_json::from_str(r#"{"readOnlyHint":true}"#)?;
/// assert!(reader.is_read_only() && !reader.is_destructive() && reader.is_idempotent());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A name for people.
    pub title: Option<String>,
    /// It changes nothing.
    pub read_only_hint: Option<bool>,
    /// It may destroy something. Means something only for a tool that is not read-only.
    pub destructive_hint: Option<bool>,
    /// Doing it twice with the same arguments is the same as doing it once. Means something only for a tool that is not read-only.
    pub idempotent_hint: Option<bool>,
    /// It reaches things outside, such as the web.
    pub open_world_hint: Option<bool>,
    /// Fields that this crate does not know, where there are any.
    extra: Option<Box<RawObject>>,
}

optional_fields!(ToolAnnotations {
    title: "title",
    read_only_hint: "readOnlyHint",
    destructive_hint: "destructiveHint",
    idempotent_hint: "idempotentHint",
    open_world_hint: "openWorldHint",
});

impl ToolAnnotations {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the tool says that it changes nothing; unsaid, it may.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only_hint.unwrap_or(false)
    }

    /// Whether the tool may destroy something; unsaid, it may, unless it is read-only.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.destructive_hint.unwrap_or(true)
    }

    /// Whether repeating a call does no more than the call; unsaid, it does, unless the tool is read-only.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.is_read_only() || self.idempotent_hint.unwrap_or(false)
    }

    /// Whether the tool reaches things outside; unsaid, it may.
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world_hint.unwrap_or(true)
    }
}

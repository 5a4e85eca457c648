use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Pattern, PatternError};
use crate::tool::ToolEntry;

/// Selects tools. What is not asked for does not matter; what is asked for has to hold, all of it.
///
/// What a tool says of itself is [believed](ToolEntry::believed) only if its source is trusted: a selector for read-only tools does not
/// select a tool of a stranger that merely claims to be one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolSelector {
    /// Its name fits one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Pattern>,
    /// It has one of these tags.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Its source's name fits one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Pattern>,
    /// It changes nothing, or may change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something, or destroys nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Repeating it does no more, or may do more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches things outside, or nothing outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolSelector {
    /// Selects every tool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects tools whose name fits this pattern, or one added before.
    ///
    /// # Errors
    ///
    /// If it is not a pattern.
    pub fn name(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.names.push(Pattern::new(pattern)?);
        Ok(self)
    }

    /// Selects tools that have this tag, or one added before.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.insert(tag.into());
        self
    }

    /// Selects tools that change nothing, or those that may change something.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = Some(read_only);
        self
    }

    /// Selects tools that may destroy something, or those that destroy nothing.
    #[must_use]
    pub const fn destructive(mut self, destructive: bool) -> Self {
        self.destructive = Some(destructive);
        self
    }

    /// Whether every tool is selected.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Whether to tell is as quick as to remember what was told.
    pub(crate) fn is_quick(&self) -> bool {
        self.names.len() <= 2 && !self.names.iter().any(Pattern::is_glob) && self.tags.is_empty() && self.sources.is_empty()
    }

    /// Whether a tool that nobody registered is selected, such as one that a [fallback](crate::Router::fallback) answers for. All that is
    /// known of it is its name: it has no tag and no source, and is not believed in anything.
    #[must_use]
    pub fn matches_unknown(&self, name: &str) -> bool {
        (self.names.is_empty() || self.names.iter().any(|pattern| pattern.matches(name)))
            && self.tags.is_empty()
            && self.sources.is_empty()
            && self.read_only != Some(true)
            && self.destructive != Some(false)
            && self.idempotent != Some(true)
            && self.open_world != Some(false)
    }

    /// Whether this tool is selected.
    #[must_use]
    pub fn matches(&self, tool: &ToolEntry) -> bool {
        fn any<T>(all: &[T], holds: impl Fn(&T) -> bool) -> bool {
            all.is_empty() || all.iter().any(holds)
        }

        let believed = tool.believed();
        any(&self.names, |pattern| pattern.matches(&tool.spec().name))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| tool.spec().has_tag(tag)))
            && any(&self.sources, |pattern| pattern.matches(&tool.source().name))
            && self.read_only.is_none_or(|wanted| wanted == believed.read_only)
            && self.destructive.is_none_or(|wanted| wanted == believed.destructive)
            && self.idempotent.is_none_or(|wanted| wanted == believed.idempotent)
            && self.open_world.is_none_or(|wanted| wanted == believed.open_world)
    }
}

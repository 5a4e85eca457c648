use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

use super::{Context, RawObject, ToolSpec};
use crate::error::Refusal;

/// Asks which tools there are: the other request of the tool stack.
///
/// It goes through the same layers as a call, so that what a caller may not call does not show.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListTools {
    /// Who asks, and everything else that a call carries as well.
    pub context: Context,
}

impl ListTools {
    /// Asks with an empty context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This request, in that context.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }
}

/// The tools a caller may call, ordered by name; or why they are not told.
///
/// The specs are shared: a list is as cheap to clone as a pointer, and an unchanged list is the same one each time.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ToolList {
    tools: Arc<[Arc<ToolSpec>]>,
    /// `_meta` of the result.
    pub meta: RawObject,
    /// Fields that this crate does not know, such as `nextCursor` and `ttlMs` of a list that came from elsewhere.
    pub extra: RawObject,
    refusal: Option<Refusal>,
}

impl ToolList {
    /// A list of these tools, put in the order of their names.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<ToolSpec>>) -> Self {
        let mut tools: Vec<_> = tools.into_iter().collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Self { tools: tools.into(), ..Self::default() }
    }

    /// No list, for a reason.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        &self.tools
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.tools.iter().find(|tool| tool.name == *name)
    }

    /// Why there is no list.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// Leaves out the tools for which `keep` says no. The list stays shared if it says yes to all.
    pub fn retain(&mut self, mut keep: impl FnMut(&ToolSpec) -> bool) {
        let kept: Vec<bool> = self.tools.iter().map(|tool| keep(tool)).collect();
        if kept.contains(&false) {
            self.tools = self.tools.iter().zip(kept).filter(|(_, keep)| *keep).map(|(tool, _)| Arc::clone(tool)).collect();
        }
    }

    /// Changes the tools one by one. Only the changed ones are copied.
    pub fn map(&mut self, mut change: impl FnMut(Arc<ToolSpec>) -> Arc<ToolSpec>) {
        let mut tools: Vec<_> = self.tools.iter().map(|tool| change(Arc::clone(tool))).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        self.tools = tools.into();
    }
}

impl Serialize for ToolList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tools", &self.tools)?;
        self.extra.serialize_into(&mut map)?;
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", &self.meta)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = RawObject::deserialize(deserializer)?;
        Ok(Self {
            tools: fields.require::<Vec<_>, _>("tools")?.into(),
            meta: fields.take("_meta")?.unwrap_or_default(),
            extra: fields,
            refusal: None,
        })
    }
}

impl fmt::Debug for ToolList {
    /// The names, and the refusal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ToolList");
        out.field("tools", &self.names().collect::<Vec<_>>());
        if let Some(refusal) = &self.refusal {
            out.field("refusal", refusal);
        }
        out.finish()
    }
}

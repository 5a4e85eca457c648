use std::fmt;

use serde::Serialize;

use super::{Note, foreign};
use crate::{error::Refusal, model::ToolName, router::Catalog};

/// What a stack is made of: its layers, outermost first, and its tools with theirs.
///
/// `Display` draws it for people; the serde form is for programs.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Description {
    layers: Vec<Note>,
    tools: Vec<ToolNote>,
    #[serde(skip)]
    catalog: Option<Catalog>,
    #[serde(skip)]
    refusal: Option<Refusal>,
}

/// One tool of a stack, with the layers of its own.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolNote {
    /// What callers call it by.
    pub name: ToolName,
    /// Where it comes from.
    pub source: String,
    /// Its own layers and those of the routers that it is nested in, outermost first.
    pub layers: Vec<Note>,
}

impl ToolNote {
    pub(crate) fn new(name: ToolName, source: impl Into<String>, layers: Vec<Note>) -> Self {
        Self { name, source: source.into(), layers }
    }
}

impl Description {
    /// What the innermost service answers: the notes that were left on the way, and its tools.
    pub(crate) fn new(notes: Vec<Note>, tools: Vec<ToolNote>, catalog: Option<Catalog>) -> Self {
        Self { layers: notes, tools, catalog, refusal: None }
    }

    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// Says why a part of it is missing, if one is.
    pub(crate) fn with_refusal(mut self, refusal: Option<Refusal>) -> Self {
        self.refusal = refusal;
        self
    }

    /// Adds the layers of other crates, as far as the types tell, for a stack whose outermost service is of this type.
    pub(crate) fn with_foreign(mut self, outermost: &'static str) -> Self {
        self.layers = foreign::fill(outermost, std::mem::take(&mut self.layers));
        self
    }

    /// The layers, outermost first.
    #[must_use]
    pub fn layers(&self) -> &[Note] {
        &self.layers
    }

    /// The tools, by name. A description is for whoever runs the stack: it shows tools that are hidden from callers too.
    #[must_use]
    pub fn tools(&self) -> &[ToolNote] {
        &self.tools
    }

    /// Why there is no description, or why that of a nested router is missing from it.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    pub(crate) fn into_tools(self) -> Vec<ToolNote> {
        self.tools
    }

    pub(crate) fn into_layers(self) -> Vec<Note> {
        self.layers
    }

    /// Whether the request came as far as a router, so that the layers up to there are all told.
    pub(crate) fn has_router(&self) -> bool {
        self.catalog.is_some()
    }

    pub(crate) fn catalog(&self) -> Option<&Catalog> {
        self.catalog.as_ref()
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(refusal) = &self.refusal {
            if !self.has_router() {
                return writeln!(f, "no description: {refusal}");
            }
            writeln!(f, "not the whole description: {refusal}")?;
        }
        for note in &self.layers {
            writeln!(f, "{note}")?;
        }
        writeln!(f, "router ({} tools)", self.tools.len())?;
        for tool in &self.tools {
            write!(f, "  {}", tool.name)?;
            if tool.source != "local" {
                write!(f, " from {}", tool.source)?;
            }
            for (i, note) in tool.layers.iter().enumerate() {
                write!(f, "{}{note}", if i == 0 { ": " } else { " > " })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

mod pairs;
mod singles;

use std::fmt;

use serde::Serialize;

use self::{pairs::PAIRS, singles::SINGLES};
use super::{Description, Note};
use crate::{error::Refusal, router::Catalog};

/// Something that is wrong with the order of a stack's layers.
///
/// `Display` says which layers, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// A word for the rule that is broken.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The layers that it is about, outermost first.
    pub layers: Vec<String>,
    /// The tool among whose own layers it is; `None` for the stack.
    pub tool: Option<String>,
    /// What goes wrong.
    pub why: &'static str,
    /// What to do.
    pub help: &'static str,
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// It does less than it seems to.
    Warning,
    /// It lets something through, or breaks.
    Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule)?;
        if let Some(tool) = &self.tool {
            write!(f, "in the tool {tool}: ")?;
        }
        write!(f, "{}: {} {}", self.layers.join(" outside "), self.why, self.help)
    }
}

/// Names the faults of a stack and of its tools' own layers.
pub(crate) fn faults(description: &Description) -> Vec<Fault> {
    let mut faults: Vec<_> = description.refusal().map(untold).into_iter().collect();
    if !description.has_router() && !faults.is_empty() {
        return faults;
    }
    faults.extend(faults_at(description.layers(), 0, None));
    if let Some(tools) = description.catalog().and_then(Catalog::closed) {
        faults.extend(description.layers().iter().flat_map(|note| note.idle(&tools).map(|part| idle(note, part))));
    }
    for tool in description.tools() {
        let around = description.layers().len();
        let all: Vec<Note> = description.layers().iter().chain(&tool.layers).cloned().collect();
        // Faults that lie outside the tool are named once, above.
        faults.extend(faults_at(&all, around, Some(&tool.name)));
    }
    faults
}

/// The fault of a stack that does not tell what it is made of: that nothing was found says nothing of it.
fn untold(refusal: &Refusal) -> Fault {
    Fault {
        rule: "no-description",
        severity: Severity::Error,
        layers: vec![format!("{} ({refusal})", refusal.by())],
        tool: None,
        why: "it refused to be described, so what stands there was not looked at.",
        help: "Look for a layer that fails, panics or waits when it is described, or ask again when the stack is not busy.",
    }
}

/// The fault of a part of a layer that is about tools which do not exist.
fn idle(note: &Note, part: &str) -> Fault {
    Fault {
        rule: "selects-no-tool",
        severity: Severity::Warning,
        layers: vec![format!("{} ({part})", note.name())],
        tool: None,
        why: "it is about tools that do not exist.",
        help: "Look for a misspelt name, or a tool that is added later.",
    }
}

/// The faults whose inner layer stands at `from` or further in.
fn faults_at(layers: &[Note], from: usize, tool: Option<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for pair in PAIRS {
        for (at, inner) in layers.iter().enumerate().skip(from).filter(|(_, note)| (pair.inner)(note)) {
            let first = if pair.across { 0 } else { from };
            let outer = (first..at).rev().find(|&outer| {
                (pair.outer)(&layers[outer])
                    && (pair.both)(&layers[outer], inner)
                    && !layers[outer + 1..at].iter().any(pair.unless_between)
                    && !layers[..outer].iter().any(pair.unless_outside)
            });
            if let Some(outer) = outer {
                faults.push(Fault {
                    rule: pair.rule,
                    severity: pair.severity,
                    layers: vec![layers[outer].name().to_owned(), inner.name().to_owned()],
                    tool: tool.map(str::to_owned),
                    why: pair.why,
                    help: pair.help,
                });
            }
        }
    }
    for single in SINGLES {
        for (at, note) in layers.iter().enumerate().skip(from) {
            if note.has(single.duty) && (single.broken)(&layers[at + 1..]) {
                faults.push(Fault {
                    rule: single.rule,
                    severity: Severity::Warning,
                    layers: vec![note.name().to_owned()],
                    tool: tool.map(str::to_owned),
                    why: single.why,
                    help: single.help,
                });
            }
        }
    }
    faults
}

use std::fmt;

use smol_str::SmolStr;

use super::Effect;
use crate::{
    model::{ToolCall, trail},
    tool::ToolEntry,
};

/// A decision, for whoever keeps records of them. It is told whether or not the tool runs afterwards.
///
/// `Debug` shows no arguments.
#[derive(Debug)]
#[non_exhaustive]
pub struct Decided<'a> {
    /// The call, with the arguments that were judged.
    pub call: &'a ToolCall,
    /// The tool.
    pub tool: &'a ToolEntry,
    /// What was decided; [`Ask`](Effect::Ask) where nobody has decided yet.
    pub effect: Effect,
    /// By whom.
    pub by: DecidedBy<'a>,
    /// Whether it holds. In [audit mode](super::PermissionLayer::audit_only) nothing does.
    pub enforced: bool,
}

/// Who or what decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidedBy<'a> {
    /// The policy engine.
    Engine,
    /// Something is broken, or an approval that was brought back is none.
    Failure,
    /// A person, earlier.
    Grant(&'a str),
    /// Nobody: there was no answer.
    Nobody,
    /// A person.
    Person,
    /// The rule of this id.
    Rule(&'a str),
    /// No rule is about the call.
    Unmatched,
}

impl DecidedBy<'_> {
    /// The decision, for whoever observes the call from further out.
    pub(super) fn noted(self, effect: Effect, enforced: bool) -> trail::Decided {
        let (by, id) = match self {
            Self::Engine => ("engine", None),
            Self::Failure => ("failure", None),
            Self::Grant(id) => ("grant", Some(id)),
            Self::Nobody => ("nobody", None),
            Self::Person => ("person", None),
            Self::Rule(id) => ("rule", Some(id)),
            Self::Unmatched => ("unmatched", None),
        };
        trail::Decided { effect, by, id: id.map(SmolStr::new), enforced }
    }
}

impl fmt::Display for DecidedBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("engine"),
            Self::Failure => f.write_str("failure"),
            Self::Grant(id) => write!(f, "grant {id}"),
            Self::Nobody => f.write_str("nobody"),
            Self::Person => f.write_str("person"),
            Self::Rule(id) => write!(f, "rule {id}"),
            Self::Unmatched => f.write_str("unmatched"),
        }
    }
}

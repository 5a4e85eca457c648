use std::fmt;

use crate::error::RefusalKind;

/// How an operation ended, for whoever counts, records or decides about it.
///
/// Layers and faces read this, never a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The caller dropped the operation before it ended.
    Cancelled,
    /// It did what was asked.
    Completed,
    /// An answer of the person is needed first.
    InputRequired,
    /// A layer, the router or the machinery did not run the tool, or does not give its result.
    Refused(RefusalKind),
    /// It goes on elsewhere, under a handle.
    Task,
    /// The tool ran and says that it failed.
    ToolError,
}

impl Outcome {
    /// A word for labels: `completed`, `tool_error`, `cancelled`, `input_required`, `task`, or the word of the refusal's kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::InputRequired => "input_required",
            Self::Refused(kind) => kind.as_str(),
            Self::Task => "task",
            Self::ToolError => "tool_error",
        }
    }

    /// Whether it is an error: neither done, nor waiting for a person, nor going on elsewhere.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Cancelled | Self::Refused(_) | Self::ToolError)
    }
}

/// Outcomes as places in an array, for whoever counts them.
impl Outcome {
    const PLAIN: [Self; 5] = [Self::Cancelled, Self::Completed, Self::InputRequired, Self::Task, Self::ToolError];

    /// How many outcomes there are.
    pub(crate) const COUNT: usize = Self::PLAIN.len() + RefusalKind::ALL.len();

    /// The place of an outcome, below [`COUNT`](Self::COUNT).
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Cancelled => 0,
            Self::Completed => 1,
            Self::InputRequired => 2,
            Self::Task => 3,
            Self::ToolError => 4,
            Self::Refused(kind) => Self::PLAIN.len() + kind as usize,
        }
    }

    /// The outcome of a place.
    pub(crate) fn of_index(index: usize) -> Option<Self> {
        let refused = || RefusalKind::ALL.get(index.checked_sub(Self::PLAIN.len())?).copied().map(Self::Refused);
        Self::PLAIN.get(index).copied().or_else(refused)
    }
}

impl From<RefusalKind> for Outcome {
    /// A refusal of kind [`ToolError`](RefusalKind::ToolError) or [`Cancelled`](RefusalKind::Cancelled) is the outcome of that name.
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Cancelled => Self::Cancelled,
            RefusalKind::ToolError => Self::ToolError,
            kind => Self::Refused(kind),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_place_of_its_own() {
        for (place, kind) in RefusalKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind} is where it was declared");
        }
        for index in 0..Outcome::COUNT {
            assert_eq!(Outcome::of_index(index).map(Outcome::index), Some(index));
        }
        assert_eq!(Outcome::of_index(Outcome::COUNT), None);
    }
}

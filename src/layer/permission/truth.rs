use serde::{Deserialize, Serialize};

/// Whether something holds, where that may be impossible to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told. Never allows anything.
    Unknown,
}

impl Truth {
    /// All of them have to hold. One that does not is enough for none.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::True, Self::True) => Self::True,
            _ => Self::Unknown,
        }
    }

    /// One of them has to hold. One that cannot be told leaves it open, unless another one holds.
    pub(crate) const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::True, _) | (_, Self::True) => Self::True,
            (Self::False, Self::False) => Self::False,
            _ => Self::Unknown,
        }
    }

    /// What all say if they say the same. If they do not, it cannot be told.
    pub(crate) fn agree(self, other: Self) -> Self {
        if self == other { self } else { Self::Unknown }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What an argument that is not there means for a rule about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// It cannot be told: what the tool does without it is not known here.
    #[default]
    Unknown,
    /// As if the test held.
    Matches,
    /// As if the test did not hold: for an option that is harmless when left out.
    Differs,
}

impl From<Missing> for Truth {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Unknown => Self::Unknown,
            Missing::Matches => Self::True,
            Missing::Differs => Self::False,
        }
    }
}

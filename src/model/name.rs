use std::{borrow::Borrow, fmt, ops::Deref, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};
use smol_str::SmolStr;

/// The name of a tool: 1 to 128 characters of `[A-Za-z0-9_.-]`, case-sensitive.
///
/// The rule is MCP's. A name of up to 23 characters is held without an allocation, a longer one is shared between clones.
///
/// A [`ToolCall`](super::ToolCall) may ask for any text at all, since a model may write any text; such a name is kept as it came and
/// is simply unknown. Only a name that passed [`ToolName::new`] can be registered.
///
/// ```
/// use toolstack::model::ToolName;
///
/// assert_eq!(ToolName::new("git.status")?, "git.status");
/// assert!(ToolName::new("rm -rf").is_err());
/// # Ok::<(), toolstack::model::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(SmolStr);

/// Why a text is not a tool name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("a tool name is empty; it needs 1 to 128 characters of [A-Za-z0-9_.-]")]
    Empty,
    /// The name has more than 128 characters.
    #[error("a tool name has {length} characters; at most 128 are allowed")]
    #[non_exhaustive]
    TooLong {
        /// How many characters it has.
        length: usize,
    },
    /// The name holds a character outside `[A-Za-z0-9_.-]`.
    #[error("a tool name holds {character:?} at byte {position}; only [A-Za-z0-9_.-] are allowed")]
    #[non_exhaustive]
    Character {
        /// The first character that is not allowed.
        character: char,
        /// Where it stands, in bytes from the start.
        position: usize,
    },
}

impl ToolName {
    /// The most characters a name may have.
    pub const MAX_LENGTH: usize = 128;

    /// Checks `name` and keeps it.
    ///
    /// # Errors
    ///
    /// If the name is empty, too long or holds a character that is not allowed.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if let Some((position, character)) = name.char_indices().find(|(_, c)| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')))
        {
            return Err(NameError::Character { character, position });
        }
        if name.len() > Self::MAX_LENGTH {
            return Err(NameError::TooLong { length: name.len() });
        }
        Ok(Self(SmolStr::new(name)))
    }

    /// Keeps a name as somebody asked for it. A text far over the limit is cut, so that an absurd name cannot travel on into
    /// messages, records and labels; the cut text is over the limit still, and so names no tool.
    #[inline]
    pub(crate) fn asked(name: &str) -> Self {
        const KEPT: usize = 4 * ToolName::MAX_LENGTH;
        const INLINE: usize = 23;
        if name.len() <= INLINE {
            // Half the time of `new`.
            return Self(SmolStr::new_inline(name));
        }
        let end = (0..=KEPT.min(name.len())).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
        Self(SmolStr::new(&name[..end]))
    }

    /// The name as text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) const fn text(&self) -> &SmolStr {
        &self.0
    }

    /// Whether the text follows the rule for names. Always true for what [`ToolName::new`] returned.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        Self::new(self.as_str()).is_ok()
    }

    /// This name within the name space `prefix`: `git` and `status` give `git.status`.
    pub(crate) fn within(&self, prefix: &str) -> Result<Self, NameError> {
        Self::new(smol_str::format_smolstr!("{prefix}.{self}"))
    }
}

impl Deref for ToolName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for ToolName {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for ToolName {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ToolName {
    type Error = NameError;

    fn try_from(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for ToolName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = SmolStr::deserialize(deserializer)?;
        Self::new(name).map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

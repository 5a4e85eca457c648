use std::{fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize};
use smol_str::SmolStr;

/// A short text of a record: a name, an id, a word. A long one is cut, since some come from outside. Up to 23 bytes cost no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Label(SmolStr);

impl Label {
    /// The longest, in bytes.
    pub const MAX_LENGTH: usize = 256;

    /// This text, cut where it is too long.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(cut(text.as_ref()))
    }

    /// A word.
    pub(super) const fn word(word: &'static str) -> Self {
        Self(SmolStr::new_static(word))
    }

    pub(super) fn of(text: &SmolStr) -> Self {
        if text.len() <= Self::MAX_LENGTH { Self(text.clone()) } else { Self::new(text) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

pub(super) fn cut(text: &str) -> SmolStr {
    const CUT: &str = "…";
    if text.len() <= Label::MAX_LENGTH {
        return SmolStr::new(text);
    }
    let end = (0..=Label::MAX_LENGTH - CUT.len()).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    smol_str::format_smolstr!("{}{CUT}", &text[..end])
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Label {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Label {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let label = Label::new("é".repeat(1000));
        assert!(label.len() <= Label::MAX_LENGTH && label.ends_with("é…"));
        assert_eq!(Label::new("x".repeat(Label::MAX_LENGTH)).len(), Label::MAX_LENGTH);
        assert_eq!(Label::new("add"), "add");
    }
}

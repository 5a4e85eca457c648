use std::{fmt, str::FromStr};

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text, or a glob over texts.
///
/// `*` stands for any number of any characters, dots and slashes included, `?` for one, `[a-z]` for one of a range, `{a,b}` for either;
/// a backslash takes the meaning from the next one. Letters are case-sensitive, and the pattern has to fit the whole text. A pattern
/// without any of these is compared as it is.
///
/// ```
/// use toolstack::select::Pattern;
///
/// let git = Pattern::new("git.*")?;
/// assert!(git.matches("git.status") && git.matches("git.log.all") && !git.matches("digit.x"));
/// assert!(Pattern::new("{").is_err());
/// # Ok::<(), toolstack::select::PatternError>(())
/// ```
#[derive(Clone)]
pub struct Pattern {
    text: Box<str>,
    kind: Kind,
}

/// How a pattern is compared.
#[derive(Clone)]
enum Kind {
    /// As it is.
    Text,
    /// A text and a star behind it, which most globs are.
    Prefix,
    Glob(GlobMatcher),
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}`: {why}")]
#[non_exhaustive]
pub struct PatternError {
    /// The text.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// The longest pattern, in bytes.
    pub const MAX_LENGTH: usize = 1024;

    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or a glob that is not closed.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let error = |why: String| PatternError { pattern: pattern.chars().take(64).collect(), why };
        if pattern.is_empty() {
            return Err(error("it is empty, and would match nothing".to_owned()));
        }
        if pattern.len() > Self::MAX_LENGTH {
            return Err(error(format!("it has more than {} bytes", Self::MAX_LENGTH)));
        }
        const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];
        let kind = if !pattern.contains(SPECIAL) {
            Kind::Text
        } else if pattern.strip_suffix('*').is_some_and(|prefix| !prefix.contains(SPECIAL)) {
            Kind::Prefix
        } else {
            let glob = GlobBuilder::new(&single_stars(pattern)).literal_separator(false).backslash_escape(true).build();
            Kind::Glob(glob.map_err(|glob| error(glob.kind().to_string()))?.compile_matcher())
        };
        Ok(Self { text: pattern.into(), kind })
    }

    /// Whether the pattern fits the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Text => *self.text == *text,
            Kind::Prefix => text.starts_with(&self.text[..self.text.len() - 1]),
            Kind::Glob(glob) => glob.is_match(text),
        }
    }

    /// Whether it is more than a text, or the beginning of one.
    pub(super) const fn is_glob(&self) -> bool {
        matches!(self.kind, Kind::Glob(_))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The pattern with one star for each run of them. To globset `**` next to a slash stands for whole folders, the slash included; here a
/// slash is a character like any other.
fn single_stars(pattern: &str) -> String {
    let (mut single, mut escaped, mut starred) = (String::with_capacity(pattern.len()), false, false);
    for next in pattern.chars() {
        let star = next == '*' && !escaped;
        if !(star && starred) {
            single.push(next);
        }
        escaped = next == '\\' && !escaped;
        starred = star;
    }
    single
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        Self::new(pattern)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_star_behind_it_matches_as_the_glob_that_it_is() {
        for pattern in ["*", "git.*", "g*", "\u{e9}*", "a/*"] {
            let glob = GlobBuilder::new(pattern).literal_separator(false).backslash_escape(true).build().unwrap().compile_matcher();
            assert!(matches!(Pattern::new(pattern).unwrap().kind, Kind::Prefix));
            for text in
                ["", "g", "git", "git.", "git.status", "git.a/b", "digit.x", "a/", "a/b\nc", "\u{e9}", "\u{e9}t\u{e9}", "*", "git.*"]
            {
                assert_eq!(Pattern::new(pattern).unwrap().matches(text), glob.is_match(text), "{pattern} on {text:?}");
            }
        }
        assert!(matches!(Pattern::new("a**").unwrap().kind, Kind::Glob(_)) && matches!(Pattern::new("a\\*").unwrap().kind, Kind::Glob(_)));
    }

    #[test]
    fn several_stars_are_one_also_beside_a_slash() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().matches(text);
        assert!(!matches("**/x", "x") && matches("**/x", "/x") && matches("**/x", "a/b/x"));
        assert!(!matches("a/**/b", "a/b") && matches("a/**/b", "a//b") && matches("a/***/b", "a/c/d/b"));
        assert!(matches("a\\**", "a*") && matches("a\\**", "a*bc") && !matches("a\\**", "abc"));
        assert!(matches("a\\\\**", "a\\bc") && !matches("a\\\\**", "a*"));
    }
}

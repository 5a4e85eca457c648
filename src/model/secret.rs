use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A text that nobody but the one it is for should see: a token, a key, a password.
///
/// `Debug` shows nothing of it, not even how long it is; there is neither a `Display` nor a serde form to write it with, and whoever needs
/// the text asks for it by [`expose`](Self::expose). Two are compared in a time that depends on their lengths alone. The memory is
/// overwritten when the last clone is dropped. A clone is cheap and shares the text.
///
/// ```
/// use toolstack::model::Secret;
///
/// let token = Secret::new("t0ken");
/// assert_eq!(format!("{token:?}"), "Secret(..)");
/// assert!(token == Secret::new("t0ken") && token != Secret::new("token"));
/// assert_eq!(token.expose(), "t0ken");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// This text. It is moved, not copied, if it is a `String`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Zeroizing::new(text.into())))
    }

    /// The text. Where it goes from here is up to the caller.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Whatever else stands there may be a secret too: an error does not show it.
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl serde::de::Visitor<'_> for Text {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom(NO_TEXT))
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom(NO_TEXT))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom(NO_TEXT))
    }
}

const NO_TEXT: &str = "a secret is a text, and this is none";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_equal_if_their_texts_are() {
        for (one, two) in [("", ""), ("a", "a"), ("a", "b"), ("a", "ab"), ("", "a"), ("\u{e9}", "e\u{301}")] {
            assert_eq!(Secret::from(one) == Secret::from(two), one == two, "{one:?} {two:?}");
        }
    }

    #[test]
    fn debug_shows_nothing_and_neither_does_an_error() {
        let secret: Secret = serde_json::from_str("\"hunter2\"").unwrap();
        assert_eq!((format!("{secret:?}"), format!("{secret:#?}")), ("Secret(..)".to_owned(), "Secret(..)".to_owned()));
        for wrong in ["48151623", "-48151623", "48151623.5"] {
            let error = serde_json::from_str::<Secret>(wrong).unwrap_err().to_string();
            assert!(!error.contains("48151623"), "{error}");
        }
    }
}

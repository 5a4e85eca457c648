use std::{fmt, time::Duration};

use http::{HeaderValue, header::InvalidHeaderValue};
use tokio::time::Instant;

use crate::{
    error::Refusal,
    model::{Context, Secret, ToolCall},
    tool::{FromCall, via},
};

/// A credential that a tool sends to somebody else's service.
///
/// `Debug` shows when it ends and what it is for, and nothing of the token itself. It is no part of a call's arguments, of what a tool
/// answers or of any serde form.
///
/// A tool function takes what was handed inward as a parameter `Option<Token>`.
#[derive(Clone)]
pub struct Token {
    secret: Secret,
    expires: Option<Instant>,
    scopes: Vec<String>,
}

impl Token {
    /// A token that does not end.
    #[must_use]
    pub fn new(secret: impl Into<Secret>) -> Self {
        Self { secret: secret.into(), expires: None, scopes: Vec::new() }
    }

    /// Ends so long from now. A time beyond what the clock can tell is never.
    #[must_use]
    pub fn expires_in(mut self, life: Duration) -> Self {
        self.expires = Instant::now().checked_add(life);
        self
    }

    /// Sets what it is good for, as whoever issued it says.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// The token itself.
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// When it ends, where that is known.
    #[must_use]
    pub const fn expires(&self) -> Option<Instant> {
        self.expires
    }

    /// What it is good for, where that is known.
    #[must_use]
    pub fn granted(&self) -> &[String] {
        &self.scopes
    }

    /// Whether it is good for so long still.
    #[must_use]
    pub fn lasts(&self, time: Duration) -> bool {
        self.expires.is_none_or(|end| end.saturating_duration_since(Instant::now()) > time)
    }

    /// The value of an `Authorization` header, marked as sensitive.
    ///
    /// # Errors
    ///
    /// If the token has characters that no header may have.
    pub fn bearer(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.secret.expose()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// What was handed inward with this operation.
    #[must_use]
    pub fn of(context: &Context) -> Option<&Self> {
        context.extensions().get()
    }

    /// Whether both are the same text, in a time that depends on their lengths alone.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.secret == other.secret
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("secret", &self.secret).field("expires", &self.expires).field("scopes", &self.scopes).finish()
    }
}

impl<S> FromCall<S, via::Call> for Option<Token> {
    /// What was handed inward with the call; `None` on a first attempt.
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(Token::of(&call.context).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_lasts_until_it_ends() {
        let token = Token::new("t").expires_in(Duration::from_secs(100));
        assert!(token.lasts(Duration::from_secs(60)) && !token.lasts(Duration::from_secs(100)));
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(!token.lasts(Duration::from_secs(60)) && token.lasts(Duration::ZERO));
        assert!(Token::new("t").expires_in(Duration::MAX).lasts(Duration::from_secs(1 << 40)));
    }

    #[test]
    fn a_header_is_sensitive_and_a_line_break_is_no_header() {
        let value = Token::new("t0ken").bearer().unwrap();
        assert!(value.is_sensitive());
        assert_eq!((value.to_str().unwrap(), format!("{value:?}").as_str()), ("Bearer t0ken", "Sensitive"));
        assert!(Token::new("a\r\nHost: b").bearer().is_err());
    }
}

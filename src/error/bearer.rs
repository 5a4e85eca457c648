use std::{fmt, time::Duration};

use super::{Challenge, Refusal, RefusalKind};

/// What was wrong with a bearer token that was sent, in the words of RFC 6750.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BearerError {
    /// It was not sent as one: twice, in another scheme, too long, or of other characters than a token has.
    InvalidRequest,
    /// It is expired, revoked, for somebody else or no token at all. Which of these is told to nobody.
    InvalidToken,
}

impl BearerError {
    /// The word that goes into the header.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken => "invalid_token",
        }
    }
}

/// What a face over HTTP says to a caller whose identity, scopes or sign-in do not suffice: a status, and the `WWW-Authenticate` header of
/// RFC 6750 and RFC 9470, which `Display` writes.
///
/// ```
/// use toolstack::{Refusal, RefusalKind, error::Challenge};
///
/// let refusal = Refusal::new(RefusalKind::InsufficientScope, "…").with_challenge(Challenge::Scopes(vec!["files:write".into()]));
/// let mut challenge = refusal.bearer_challenge().unwrap();
/// challenge.resource_metadata = Some("https://host/.well-known/oauth-protected-resource".to_owned());
/// assert_eq!(challenge.status, 403);
/// assert_eq!(
///     challenge.to_string(),
///     r#"Bearer error="insufficient_scope", scope="files:write", resource_metadata="https://host/.well-known/oauth-protected-resource""#,
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BearerChallenge {
    /// The status: 400, 401 or 403.
    pub status: u16,
    /// What the token is for.
    pub realm: Option<String>,
    /// The word for what is wrong; nothing where no token was sent.
    pub error: Option<&'static str>,
    /// All scopes that are needed.
    pub scopes: Vec<String>,
    /// Authentication context classes, any one of which will do.
    pub acr_values: Vec<String>,
    /// How long ago the sign-in may be; whole seconds are told.
    pub max_age: Option<Duration>,
    /// Where the metadata of the protected resource are (RFC 9728). The face knows.
    pub resource_metadata: Option<String>,
    /// A text for developers.
    pub error_description: Option<String>,
}

impl Refusal {
    /// What a face over HTTP says; `None` for a refusal that no other token would change.
    #[must_use]
    pub fn bearer_challenge(&self) -> Option<BearerChallenge> {
        let mut told = BearerChallenge { status: 401, ..BearerChallenge::default() };
        match (self.kind(), self.challenge()) {
            (RefusalKind::Unauthenticated, Some(Challenge::Bearer { realm, error, scopes })) => {
                told.realm.clone_from(realm);
                told.error = error.map(BearerError::as_str);
                told.scopes.clone_from(scopes);
                if *error == Some(BearerError::InvalidRequest) {
                    told.status = 400;
                }
            }
            (RefusalKind::Unauthenticated, _) => {}
            (RefusalKind::InsufficientScope, Some(Challenge::Scopes(scopes))) => {
                told.status = 403;
                told.error = Some("insufficient_scope");
                told.scopes.clone_from(scopes);
            }
            (RefusalKind::StepUp, Some(Challenge::StepUp { acr_values, max_age })) => {
                told.error = Some("insufficient_user_authentication");
                told.acr_values.clone_from(acr_values);
                told.max_age = *max_age;
            }
            _ => return None,
        }
        Some(told)
    }
}

impl fmt::Display for BearerChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")?;
        let mut written = false;
        let mut write = |name: &str, value: &str| -> fmt::Result {
            write!(f, "{}{name}=\"{}\"", if written { ", " } else { " " }, Quoted(value))?;
            written = true;
            Ok(())
        };
        if let Some(realm) = &self.realm {
            write("realm", realm)?;
        }
        if let Some(error) = self.error {
            write("error", error)?;
        }
        if !self.scopes.is_empty() {
            write("scope", &self.scopes.join(" "))?;
        }
        if !self.acr_values.is_empty() {
            write("acr_values", &self.acr_values.join(" "))?;
        }
        if let Some(age) = self.max_age {
            write("max_age", &age.as_secs().to_string())?;
        }
        if let Some(metadata) = &self.resource_metadata {
            write("resource_metadata", metadata)?;
        }
        if let Some(description) = &self.error_description {
            write("error_description", description)?;
        }
        Ok(())
    }
}

/// A text between quotation marks of a header: nothing in it ends the text or the header.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;

        for next in self.0.chars() {
            match next {
                '"' | '\\' => write!(f, "\\{next}")?,
                ' '..='~' => f.write_char(next)?,
                _ => f.write_char('?')?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_value_ends_the_header_or_the_text() {
        let told = BearerChallenge { realm: Some("a\"b\\c\r\nX: y\u{e9}".to_owned()), ..BearerChallenge::default() };
        assert_eq!(told.to_string(), r#"Bearer realm="a\"b\\c??X: y?""#);
        assert!(http::HeaderValue::from_str(&told.to_string()).is_ok());
    }

    #[test]
    fn only_a_refusal_that_another_token_would_change_has_a_challenge() {
        let told = |refusal: &Refusal| refusal.bearer_challenge().map(|told| (told.status, told.to_string()));
        let missing = Refusal::new(RefusalKind::Unauthenticated, "").with_challenge(Challenge::bearer(None, None, ["a", "b"]));
        assert_eq!(told(&missing), Some((401, r#"Bearer scope="a b""#.to_owned())));
        let twice = Challenge::bearer("tools".to_owned(), BearerError::InvalidRequest, Vec::<String>::new());
        let twice = Refusal::new(RefusalKind::Unauthenticated, "").with_challenge(twice);
        assert_eq!(told(&twice), Some((400, r#"Bearer realm="tools", error="invalid_request""#.to_owned())));
        let weak = Refusal::new(RefusalKind::StepUp, "").with_challenge(Challenge::step_up(["mfa"], Some(Duration::from_secs(300))));
        let text = r#"Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300""#;
        assert_eq!(told(&weak), Some((401, text.to_owned())));
        assert_eq!(told(&Refusal::new(RefusalKind::Denied, "")), None);
    }
}

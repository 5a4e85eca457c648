use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION, request::Parts};
use sha2::{Digest, Sha256};

use crate::model::{Context, Secret};

/// A bearer token that came with an operation (RFC 6750). `Debug` shows nothing of it.
///
/// A face puts one into the [extensions](Context::extensions) of the context; or it puts the parts or the headers of the HTTP request
/// there, and the layer reads the `Authorization` header itself.
///
/// ```
/// use toolstack::{layer::authenticate::BearerToken, model::Context};
///
/// let mut context = Context::new();
/// context.extensions_mut().insert(BearerToken::new("t0ken").unwrap());
/// assert!(BearerToken::new("not a token").is_err());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(Secret);

/// Why a text cannot be a bearer token, or a request has none that could be read. The text is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BearerTokenError {
    /// It is in the context in more than one form, and they differ.
    #[error("there are several tokens")]
    Ambiguous,
    /// There is more than one `Authorization` header.
    #[error("there is more than one authorization header")]
    Duplicate,
    /// It is empty, or has a character that no token has.
    #[error("it has not the form of a bearer token")]
    Malformed,
    /// The header is of another scheme than `Bearer`.
    #[error("the authorization header is of another scheme than `Bearer`")]
    Scheme,
    /// It is too long.
    #[error("it has more than {} bytes", BearerToken::MAX_LENGTH)]
    TooLong,
}

impl BearerToken {
    /// The longest token, in bytes.
    pub const MAX_LENGTH: usize = 16 * 1024;

    /// A token of this text.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or has another character than letters, digits, `-._~+/` and `=` at its end.
    pub fn new(text: impl Into<Secret>) -> Result<Self, BearerTokenError> {
        let text = text.into();
        let token = text.expose();
        if token.len() > Self::MAX_LENGTH {
            return Err(BearerTokenError::TooLong);
        }
        let body = token.trim_end_matches('=');
        if body.is_empty() || !body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)) {
            return Err(BearerTokenError::Malformed);
        }
        Ok(Self(text))
    }

    /// The text. Where it goes from here is up to the caller.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Stands for the token where it is looked up.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.expose()).into()
    }

    /// The one token that a request came with, if it came with any: exactly one `Authorization` header, in the scheme `Bearer`, however
    /// that is spelt.
    ///
    /// # Errors
    ///
    /// If there are several headers, or one of another scheme or form.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, BearerTokenError> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(BearerTokenError::Duplicate);
        }
        Self::from_header(value).map(Some)
    }

    fn from_header(value: &HeaderValue) -> Result<Self, BearerTokenError> {
        // The scheme, a space or more, the token.
        if value.len() > Self::MAX_LENGTH + 16 {
            return Err(BearerTokenError::TooLong);
        }
        let text = value.to_str().map_err(|_| BearerTokenError::Malformed)?;
        let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(BearerTokenError::Scheme);
        }
        Self::new(token.trim_matches(' '))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// The token in the context, in whichever form it is there.
pub(super) fn find(context: &Context) -> Result<Option<BearerToken>, BearerTokenError> {
    let extensions = context.extensions();
    let of_headers = |headers: Option<&HeaderMap>| headers.map_or(Ok(None), BearerToken::from_headers);
    let all = [
        extensions.get::<BearerToken>().cloned(),
        of_headers(extensions.get::<Parts>().map(|parts| &parts.headers))?,
        of_headers(extensions.get::<Arc<Parts>>().map(|parts| &parts.headers))?,
        of_headers(extensions.get::<HeaderMap>())?,
    ];
    let mut all = all.into_iter().flatten();
    let first = all.next();
    if all.any(|other| first.as_ref() != Some(&other)) {
        return Err(BearerTokenError::Ambiguous);
    }
    Ok(first)
}

/// Takes the token out of the context, so that nothing further in sees it.
pub(super) fn take_away(context: &mut Context) {
    let extensions = context.extensions();
    let has = |headers: Option<&HeaderMap>| headers.is_some_and(|headers| headers.contains_key(AUTHORIZATION));
    if extensions.get::<BearerToken>().is_some() {
        context.extensions_mut().remove::<BearerToken>();
    }
    if has(context.extensions().get::<Parts>().map(|parts| &parts.headers))
        && let Some(parts) = context.extensions_mut().get_mut::<Parts>()
    {
        parts.headers.remove(AUTHORIZATION);
    }
    if has(context.extensions().get::<Arc<Parts>>().map(|parts| &parts.headers))
        && let Some(parts) = context.extensions_mut().get_mut::<Arc<Parts>>()
    {
        Arc::make_mut(parts).headers.remove(AUTHORIZATION);
    }
    if has(context.extensions().get::<HeaderMap>())
        && let Some(headers) = context.extensions_mut().get_mut::<HeaderMap>()
    {
        headers.remove(AUTHORIZATION);
    }
}

/// Leaves the token, and nothing but the token, for what is further in.
pub(super) fn leave(context: &mut Context, token: BearerToken) {
    take_away(context);
    context.extensions_mut().insert(token);
}

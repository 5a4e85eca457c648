use std::io;

use oauth2::{DeviceCodeErrorResponse, ErrorResponse, RequestTokenError, basic::BasicErrorResponse};

use crate::credential::CredentialError;

/// What went wrong between this program and an authorization server.
///
/// None of it says what was sent or what came: both carry tokens. Of a server's refusal, the code is kept, and no description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// The server said no, with this code, such as `invalid_grant`.
    #[error("the authorization server refused: {code}")]
    #[non_exhaustive]
    Refused {
        /// The code, in the characters that a code may have.
        code: String,
    },
    /// It redirected, which nobody follows with a secret.
    #[error("the authorization server redirected a request for a token")]
    Redirected,
    /// It did not answer in time.
    #[error("the authorization server did not answer in time")]
    TimedOut,
    /// What it answered is not what it should be, or is too long.
    #[error("the authorization server answered with something else than a token")]
    Unreadable,
    /// It could not be reached.
    #[error("the authorization server could not be reached")]
    Unreachable,
    /// The address for answers of a browser could not be opened.
    #[error("no port of this machine could be opened for the browser's answer: {0}")]
    Port(io::ErrorKind),
    /// This flow needs an address of the server that it was not told.
    #[error("the address of the {0} was not set")]
    NoAddress(&'static str),
}

impl OAuthError {
    pub(super) fn refused(code: &str) -> Self {
        let code: String = code.chars().filter(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-' | '.')).take(64).collect();
        Self::Refused { code }
    }

    /// Whether what was presented (a refresh token, a code, another token) is good no more.
    pub(super) fn is_invalid_grant(&self) -> bool {
        matches!(self, Self::Refused { code } if code == "invalid_grant")
    }
}

impl From<OAuthError> for CredentialError {
    fn from(error: OAuthError) -> Self {
        match &error {
            OAuthError::Refused { code } if code == "access_denied" => Self::Denied,
            _ => Self::failed(error),
        }
    }
}

/// An answer whose errors have codes.
pub(super) trait Coded: ErrorResponse + 'static {
    fn code(&self) -> String;
}

impl Coded for BasicErrorResponse {
    fn code(&self) -> String {
        self.error().to_string()
    }
}

impl Coded for DeviceCodeErrorResponse {
    fn code(&self) -> String {
        self.error().to_string()
    }
}

impl<T: Coded> From<RequestTokenError<Self, T>> for OAuthError {
    fn from(error: RequestTokenError<Self, T>) -> Self {
        match error {
            RequestTokenError::ServerResponse(response) => Self::refused(&response.code()),
            RequestTokenError::Request(error) => error,
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => Self::Unreadable,
        }
    }
}

/// What is wrong with the settings of a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An address is none, or secrets would go there in the open: it has to be `https`, except on this machine, without user and fragment.
    #[error("not an address that a secret may be sent to: {0}")]
    Address(String),
    /// There are no root certificates.
    #[error("no root certificates were found")]
    Certificates(#[source] io::Error),
}

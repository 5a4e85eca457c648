use std::{error::Error, fmt};

use serde::Serialize;

use super::{CredentialError, Token};
use crate::{
    error::{Challenge, Refusal, RefusalKind},
    model::ToolResponse,
    tool::IntoToolError,
};

/// A person has to act before the tool can do its work: sign in at `url`, and enter `code` there.
///
/// A tool answers with it as its error, by `?` from anywhere within. It reaches the layers as a refusal of kind
/// [`AuthRequired`](RefusalKind::AuthRequired), and the model as [`ChallengeLayer`](crate::layer::ChallengeLayer) renders it. Where there
/// is no such layer, the model reads the message alone.
///
/// `Debug` shows neither address nor code: whoever has them may sign in as somebody.
///
/// ```
/// use toolstack::credential::AuthChallenge;
///
/// let challenge = AuthChallenge::new("Sign in to your mail.").url("https://mail.example/device").code("WDJB-MJHT");
/// assert_eq!(
///     challenge.payload(),
///     r#"{"auth_required":true,"message":"Sign in to your mail.","url":"https://mail.example/device","code":"WDJB-MJHT"}"#,
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthChallenge {
    /// What the person should do, for the model to pass on.
    pub message: String,
    /// Where.
    pub url: Option<String>,
    /// The code to enter there.
    pub code: Option<String>,
    /// What access is asked for.
    pub scope: Option<String>,
    /// Whether the tool had done something already that must not be done twice. Such a call is not repeated.
    pub after_effects: bool,
}

impl AuthChallenge {
    /// A challenge of a message alone.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), url: None, code: None, scope: None, after_effects: false }
    }

    /// Sets where to sign in.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets the code to enter there.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets what access is asked for.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Says that the tool had done something already: the call is answered in band, and never repeated.
    #[must_use]
    pub const fn after_effects(mut self) -> Self {
        self.after_effects = true;
        self
    }

    /// The answer to the model in the words of MCS, as JSON. A key that has nothing to say is left out.
    #[must_use]
    pub fn payload(&self) -> String {
        #[derive(Serialize)]
        struct Payload<'a> {
            auth_required: bool,
            message: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            url: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            scope: Option<&'a str>,
        }
        let Self { message, url, code, scope, .. } = self;
        let payload = Payload { auth_required: true, message, url: url.as_deref(), code: code.as_deref(), scope: scope.as_deref() };
        // Texts and a flag: nothing there that JSON cannot say.
        serde_json::to_string(&payload).unwrap_or_default()
    }

    /// The challenge that a refusal stands for; `None` for another kind of refusal.
    #[must_use]
    pub fn of(refusal: &Refusal) -> Option<Self> {
        if refusal.kind() != RefusalKind::AuthRequired {
            return None;
        }
        let mut challenge = Self::new(refusal.message());
        if let Some(Challenge::Auth { url, code, scope }) = refusal.challenge() {
            (challenge.url, challenge.code, challenge.scope) = (url.clone(), code.clone(), scope.clone());
        }
        challenge.after_effects = match refusal.source() {
            Some(source) if source.is::<Self>() => source.downcast_ref().is_some_and(|this: &Self| this.after_effects),
            Some(source) => source.downcast_ref().is_some_and(|rejected: &CredentialRejected| rejected.after_effects),
            None => false,
        };
        Some(challenge)
    }
}

impl fmt::Debug for AuthChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthChallenge")
            .field("message", &self.message)
            .field("url", &self.url.as_ref().map(|_| ".."))
            .field("code", &self.code.as_ref().map(|_| ".."))
            .field("scope", &self.scope)
            .field("after_effects", &self.after_effects)
            .finish()
    }
}

impl fmt::Display for AuthChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

impl Error for AuthChallenge {}

impl From<AuthChallenge> for Refusal {
    fn from(challenge: AuthChallenge) -> Self {
        Self::new(RefusalKind::AuthRequired, challenge.message.clone())
            .with_challenge(Challenge::auth(challenge.url.clone(), challenge.code.clone(), challenge.scope.clone()))
            .with_source(challenge)
    }
}

/// Somebody else's service did not accept the credential (HTTP 401): it has expired, or was revoked.
///
/// A tool answers with it as its error. [`ChallengeLayer`](crate::layer::ChallengeLayer) throws the credential away, asks for another and
/// calls once more; without a provider it is an [`AuthChallenge`] like others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CredentialRejected {
    /// What access the credential was for, in the words that it was asked for.
    pub scope: Option<String>,
    /// The credential. With it, nobody throws away a newer one that another call has fetched meanwhile.
    pub token: Option<Token>,
    /// Whether the tool had done something already that must not be done twice. Such a call is not repeated.
    pub after_effects: bool,
}

impl CredentialRejected {
    /// The credential for this access was not accepted.
    #[must_use]
    pub fn new(scope: impl Into<String>) -> Self {
        Self { scope: Some(scope.into()), token: None, after_effects: false }
    }

    /// Sets which credential it was.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Says that the tool had done something already: the call is answered in band, and never repeated.
    #[must_use]
    pub const fn after_effects(mut self) -> Self {
        self.after_effects = true;
        self
    }
}

impl fmt::Display for CredentialRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "The credential for {scope} was not accepted; another one is needed."),
            None => f.write_str("The credential was not accepted; another one is needed."),
        }
    }
}

impl Error for CredentialRejected {}

impl From<CredentialRejected> for Refusal {
    fn from(rejected: CredentialRejected) -> Self {
        Self::new(RefusalKind::AuthRequired, rejected.to_string())
            .with_challenge(Challenge::auth(None, None, rejected.scope.clone()))
            .with_source(rejected)
    }
}

macro_rules! tool_errors {
    ($($error:ty)*) => {$(
        impl IntoToolError for $error {
            fn into_tool_error(self) -> ToolResponse {
                ToolResponse::refused(self.into())
            }
        }
    )*};
}

tool_errors!(AuthChallenge CredentialError CredentialRejected);

/// The refusal that an error of this module amounts to, wherever it turns up.
pub(crate) fn refusal_in(error: &(dyn Error + 'static)) -> Option<Refusal> {
    if let Some(challenge) = error.downcast_ref::<AuthChallenge>() {
        return Some(challenge.clone().into());
    }
    if let Some(rejected) = error.downcast_ref::<CredentialRejected>() {
        return Some(rejected.clone().into());
    }
    error.downcast_ref::<CredentialError>().map(|error| error.clone().into())
}

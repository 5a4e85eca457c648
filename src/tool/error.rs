use std::{borrow::Cow, convert::Infallible, fmt};

use crate::{
    credential::refusal_in,
    error::{BoxError, Refusal, RefusalKind, chain},
    model::ToolResponse,
};

/// Why a tool failed.
///
/// A message given to [`ToolError::new`] is for the model. An error that arrives by `?` is for the operator: the model only learns that
/// the tool failed, since such texts carry paths, addresses and worse. An [`AuthChallenge`](crate::credential::AuthChallenge) and its kin
/// are told for what they are, also where another error wraps them.
///
/// ```
/// use toolstack::tool::ToolError;
///
/// fn read(path: &str) -> Result<String, ToolError> {
///     if path.is_empty() {
///         return Err(ToolError::new("`path` must not be empty"));
///     }
///     Ok(std::fs::read_to_string(path)?)
/// }
///
/// assert_eq!(read("").unwrap_err().message(), "`path` must not be empty");
/// assert_eq!(read("/no/such/secret").unwrap_err().message(), "The tool failed.");
/// ```
pub struct ToolError {
    message: Cow<'static, str>,
    source: Option<BoxError>,
}

impl ToolError {
    const UNSAID: &'static str = "The tool failed.";

    /// A failure that the model is told of in these words.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Sets what lies behind it. The model never reads it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the model reads.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self { message: Cow::Borrowed(Self::UNSAID), source: Some(error.into()) }
    }
}

impl fmt::Debug for ToolError {
    /// The message; of the source only that there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError").field("message", &self.message).field("source", &self.source.as_ref().map(|_| "..")).finish()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

/// What a tool may fail with: a [`ToolError`], a text for the model, or a [`Refusal`].
///
/// Other errors become a [`ToolError`] by `?`, which keeps their text from the model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error that a tool may answer with",
    note = "answer with `Result<_, ToolError>`: `?` turns any error into one and keeps its text from the model"
)]
pub trait IntoToolError {
    /// The response that tells of the failure.
    fn into_tool_error(self) -> ToolResponse;
}

impl IntoToolError for ToolError {
    fn into_tool_error(self) -> ToolResponse {
        // A sign-in that somebody within asks for is told, however it was wrapped on the way.
        if let Some(refusal) = self.source.as_deref().and_then(|source| chain(source).find_map(refusal_in)) {
            return ToolResponse::refused(refusal);
        }
        let refusal = Refusal::new(RefusalKind::ToolError, self.message);
        ToolResponse::refused(match self.source {
            Some(source) => refusal.with_source(source),
            None => refusal,
        })
    }
}

impl IntoToolError for Refusal {
    fn into_tool_error(self) -> ToolResponse {
        ToolResponse::refused(self)
    }
}

impl IntoToolError for String {
    fn into_tool_error(self) -> ToolResponse {
        ToolResponse::error(self)
    }
}

impl IntoToolError for &str {
    fn into_tool_error(self) -> ToolResponse {
        ToolResponse::error(self)
    }
}

impl IntoToolError for Infallible {
    fn into_tool_error(self) -> ToolResponse {
        match self {}
    }
}

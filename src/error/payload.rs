use serde_json::{Value, json};

use super::{Challenge, Refusal, RefusalKind};
use crate::model::{Content, ToolName, ToolResult};

/// A required argument is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Missing required parameter: '{name}'.")]
#[non_exhaustive]
pub struct MissingParameter {
    /// Its name.
    pub name: String,
}

impl MissingParameter {
    /// The argument of that name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// The refusal, with this as its source.
    #[must_use]
    pub fn into_refusal(self) -> Refusal {
        Refusal::new(RefusalKind::InvalidArguments, self.to_string()).with_source(self)
    }
}

/// A refusal as `{"error": code, "message": text}`, for clients that read errors in this form.
///
/// The code is `missing_parameter` for a [`MissingParameter`], `invalid_parameter` for other invalid arguments, `internal_error` for
/// what is broken on this side, and the word of the [kind](RefusalKind::as_str) for everything else.
///
/// ```
/// use toolstack::{RefusalKind, error::{MissingParameter, error_payload}};
///
/// let refusal = MissingParameter::new("session_id").into_refusal();
/// assert_eq!(refusal.kind(), RefusalKind::InvalidArguments);
/// assert_eq!(
///     error_payload(&refusal).to_string(),
///     r#"{"error":"missing_parameter","message":"Missing required parameter: 'session_id'."}"#,
/// );
/// ```
#[must_use]
pub fn error_payload(refusal: &Refusal) -> Value {
    let missing = std::error::Error::source(refusal).is_some_and(|source| source.is::<MissingParameter>());
    let code = match refusal.kind() {
        RefusalKind::InvalidArguments if missing => "missing_parameter",
        RefusalKind::InvalidArguments => "invalid_parameter",
        RefusalKind::Internal => "internal_error",
        kind => kind.as_str(),
    };
    json!({ "error": code, "message": refusal.message() })
}

/// A refusal as Sake names the reason why a plug halts: `"forbidden"` where no scope would help, `{"forbidden": [scopes]}` where they
/// would, `{"insufficient_user_authentication": {"acr_values": […], "max_age": seconds}}`, `"not_found"`, `{"tool_error": message}`, and
/// `{"error": message}` for everything else.
///
/// ```
/// use serde_json::json;
/// use toolstack::{Refusal, RefusalKind, error::{Challenge, halt_reason}};
///
/// let missing = Refusal::new(RefusalKind::InsufficientScope, "…").with_challenge(Challenge::Scopes(vec!["files:write".into()]));
/// assert_eq!(halt_reason(&missing), json!({ "forbidden": ["files:write"] }));
/// assert_eq!(halt_reason(&Refusal::new(RefusalKind::Denied, "…")), json!("forbidden"));
/// ```
#[must_use]
pub fn halt_reason(refusal: &Refusal) -> Value {
    match (refusal.kind(), refusal.challenge()) {
        (RefusalKind::UnknownTool, _) => json!("not_found"),
        (RefusalKind::InsufficientScope, Some(Challenge::Scopes(scopes))) => json!({ "forbidden": scopes }),
        (RefusalKind::Denied | RefusalKind::InsufficientScope, _) => json!("forbidden"),
        (RefusalKind::StepUp, Some(Challenge::StepUp { acr_values, max_age })) => {
            let mut needed = serde_json::Map::new();
            if !acr_values.is_empty() {
                needed.insert("acr_values".to_owned(), json!(acr_values));
            }
            if let Some(age) = max_age {
                needed.insert("max_age".to_owned(), json!(age.as_secs()));
            }
            json!({ "insufficient_user_authentication": needed })
        }
        (RefusalKind::ToolError, _) => json!({ "tool_error": refusal.message() }),
        _ => json!({ "error": refusal.message() }),
    }
}

/// A refusal as MCS writes it down for a call that failed, which is what becomes of a sign-in that a tool asks for where no
/// [`ChallengeLayer`](crate::layer::ChallengeLayer) answers it: `Tool '<name>' failed: <message>`.
///
/// ```
/// use toolstack::{Refusal, credential::AuthChallenge, error::failed_text, model::ToolName};
///
/// let refusal = Refusal::from(AuthChallenge::new("Sign in to your mail."));
/// assert_eq!(failed_text(&ToolName::new("inbox")?, &refusal), "Tool 'inbox' failed: Sign in to your mail.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn failed_text(tool: &ToolName, refusal: &Refusal) -> String {
    format!("Tool '{tool}' failed: {}", refusal.message())
}

/// Puts the [payload](error_payload) of a refused result in the place of the message, for
/// [`map_result`](crate::layer::map_result). Other content stays, and so does the error flag.
///
/// ```
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{Router, StackExt, error::render_error_payload, layer::map_result};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let stack = ServiceBuilder::new().layer(map_result("payload", render_error_payload)).service(Router::new());
/// let answer = stack.call_tool("nope", json!({})).await;
/// assert_eq!(answer.as_text().unwrap(), r#"{"error":"unknown_tool","message":"Unknown tool: nope"}"#);
/// # }
/// ```
pub fn render_error_payload(result: &mut ToolResult) {
    let Some(refusal) = result.refusal() else { return };
    let payload = error_payload(refusal).to_string();
    let message = refusal.message().to_owned();
    let place = result.content_mut().iter_mut().find_map(|block| match block {
        Content::Text(text) if text.text == message => Some(&mut text.text),
        _ => None,
    });
    match place {
        Some(text) => *text = payload,
        None => result.push(Content::text(payload)),
    }
}

use std::fmt;

use super::{
    chain::RecommendedLayer,
    settings::{Settings, SettingsError},
};
use crate::{
    layer::{
        AuditLayer, AuthenticateLayer, ChallengeLayer, HooksLayer, PermissionLayer, RedactLayer, SessionLayer, StepUpLayer, TelemetryLayer,
        ValidateLayer, validate::Validator,
    },
    model::{Context, ToolSpec},
    store::SessionStore,
};

/// The whole recommended order of layers from one value of settings.
///
/// Outermost first: catch_panic, telemetry, audit, redaction, catch_error, authentication, visibility, scopes, hooks, pinned arguments,
/// validation, required fields, sessions, step-up, permission, timeout, challenge. Each stands where the [table of the layers](crate::layer#order) has it;
/// [`lint`](crate::StackExt::lint) finds nothing to say about it, and [`describe`](crate::StackExt::describe) shows what there is.
///
/// What settings cannot say, code adds to the [`Recommended`] that this answers, on the layer itself as the settings have made it: who
/// approves, who verifies tokens, where records and sessions go. Limits, retries and layers of your own go around the router, inside, or
/// around the result, outside.
///
/// # Example
///
/// ```
/// use serde_json::json;
/// use tower::Layer;
/// use toolstack::{RefusalKind, Router, Stack, StackExt, stack::{self, Settings}, tool::sync_tool_fn};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = Settings::from_json(r#"{
///     "visibility": [{ "tags": ["admin"], "unless_scopes": ["admin"] }],
///     "permission": { "unmatched": "deny", "rules": [{ "id": "readers", "effect": "allow", "tools": { "read_only": true } }] }
/// }"#)?;
/// let tools = Router::new()
///     .tool(sync_tool_fn("ping", || "pong").read_only())
///     .tool(sync_tool_fn("write", || "written"))
///     .tool(sync_tool_fn("reset", || "done").tag("admin"));
/// let stack: Stack = stack::recommended(settings).build()?.layer(tools);
///
/// assert!(stack.call_tool("ping", json!({})).await.is_completed());
/// assert_eq!(stack.call_tool("write", json!({})).await.refusal().unwrap().kind(), RefusalKind::Denied);
/// assert_eq!(stack.call_tool("reset", json!({})).await.refusal().unwrap().kind(), RefusalKind::UnknownTool);
/// assert!(stack.lint().await.is_empty());
/// # Ok(()) }
/// ```
pub fn recommended(settings: Settings) -> Recommended {
    Recommended { settings, code: Code::default() }
}

/// The [recommended stack](recommended), before it is built.
#[must_use = "it is no layer until it is built"]
#[derive(Debug)]
pub struct Recommended {
    settings: Settings,
    code: Code,
}

/// What code does to a layer that settings made.
pub(super) struct Edits<L>(Vec<Box<dyn FnOnce(L) -> L + Send>>);

impl<L> Default for Edits<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<L> Edits<L> {
    fn push(&mut self, edit: impl FnOnce(L) -> L + Send + 'static) {
        self.0.push(Box::new(edit));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn apply(self, layer: L) -> L {
        self.0.into_iter().fold(layer, |layer, edit| edit(layer))
    }
}

/// Whether a tool is there for this caller.
pub(super) type VisibleFn = Box<dyn Fn(&ToolSpec, &Context) -> bool + Send + Sync>;

/// What code adds to the settings.
#[derive(Default)]
pub(super) struct Code {
    pub(super) telemetry: Edits<TelemetryLayer>,
    pub(super) audit: Edits<AuditLayer>,
    pub(super) redact: Edits<RedactLayer>,
    pub(super) authenticate: Edits<AuthenticateLayer>,
    pub(super) visible: Vec<VisibleFn>,
    pub(super) hooks: Edits<HooksLayer>,
    pub(super) sessions: Option<SessionLayer>,
    pub(super) validator: Option<ValidateLayer>,
    pub(super) step_up: Edits<StepUpLayer>,
    pub(super) permission: Edits<PermissionLayer>,
    pub(super) challenge: Edits<ChallengeLayer>,
}

/// Layers that the settings leave out are put in by the methods of their name.
impl Recommended {
    /// Changes the telemetry layer: for instance, where it counts. Nothing where the settings switch it off.
    pub fn telemetry(mut self, edit: impl FnOnce(TelemetryLayer) -> TelemetryLayer + Send + 'static) -> Self {
        self.code.telemetry.push(edit);
        self
    }

    /// Changes the audit layer: for instance, where records go beside what the settings name.
    pub fn audit(mut self, edit: impl FnOnce(AuditLayer) -> AuditLayer + Send + 'static) -> Self {
        self.code.audit.push(edit);
        self
    }

    /// Changes the redaction layer.
    pub fn redact(mut self, edit: impl FnOnce(RedactLayer) -> RedactLayer + Send + 'static) -> Self {
        self.code.redact.push(edit);
        self
    }

    /// Changes the authentication layer: for instance, who verifies tokens beside what the settings name.
    pub fn authenticate(mut self, edit: impl FnOnce(AuthenticateLayer) -> AuthenticateLayer + Send + 'static) -> Self {
        self.code.authenticate.push(edit);
        self
    }

    /// Hides the tools for which this says no, and those that the settings hide.
    pub fn visible(mut self, visible: impl Fn(&ToolSpec, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.code.visible.push(Box::new(visible));
        self
    }

    /// Changes the hooks layer: for instance, adds hooks behind those of the settings.
    pub fn hooks(mut self, edit: impl FnOnce(HooksLayer) -> HooksLayer + Send + 'static) -> Self {
        self.code.hooks.push(edit);
        self
    }

    /// Takes the sessions that the settings speak of from this store.
    pub fn sessions(mut self, store: impl SessionStore) -> Self {
        self.code.sessions = Some(SessionLayer::new(store));
        self
    }

    /// Validates by this engine, where the settings validate.
    pub fn validator(mut self, validator: impl Validator) -> Self {
        self.code.validator = Some(ValidateLayer::new(validator));
        self
    }

    /// Changes the step-up layer: for instance, its clock.
    pub fn step_up(mut self, edit: impl FnOnce(StepUpLayer) -> StepUpLayer + Send + 'static) -> Self {
        self.code.step_up.push(edit);
        self
    }

    /// Changes the permission layer: for instance, whom it asks and where it remembers.
    pub fn permission(mut self, edit: impl FnOnce(PermissionLayer) -> PermissionLayer + Send + 'static) -> Self {
        self.code.permission.push(edit);
        self
    }

    /// Changes the challenge layer, which tells the model that a tool needs a sign-in: for instance, gives it a provider of credentials.
    pub fn challenge(mut self, edit: impl FnOnce(ChallengeLayer) -> ChallengeLayer + Send + 'static) -> Self {
        self.code.challenge.push(edit);
        self
    }

    /// Builds the layer: opens files, reads keys and the environment.
    ///
    /// # Errors
    ///
    /// If something that the settings ask for is not there or does not do; the error names the place.
    pub fn build(self) -> Result<RecommendedLayer, SettingsError> {
        RecommendedLayer::new(self.settings, self.code)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Code").finish_non_exhaustive()
    }
}

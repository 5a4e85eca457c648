use tower_layer::Layer;

use super::{
    Stack, ToolStack, parts,
    recommended::{Code, VisibleFn},
    settings::{Settings, SettingsError},
};
use crate::layer::{
    AuditLayer, AuthenticateLayer, CatchErrorLayer, CatchPanicLayer, ChallengeLayer, HooksLayer, PinLayer, PolicyLayer, RedactLayer,
    RequireFieldsLayer, ScopesLayer, SessionLayer, StepUpLayer, TimeoutLayer, ValidateLayer,
    audit::{AuditHandle, AuditPolicy},
    authenticate::Authenticate,
    hooks::Hooks,
    permission::{Permission, PermissionHandle},
    redact::Redaction,
    scopes::Scopes,
    session::{Pin, SessionPolicy},
    step_up::StepUp,
    telemetry::{Metrics, Telemetry},
    validate::{RequiredFields, Schemas},
    visibility::Visible,
};

/// A layer that may be left out. Its type is the same either way.
type May<P> = PolicyLayer<Option<P>>;

/// The [recommended stack](super::recommended()) as a layer: around a router it makes a [`Stack`].
///
/// Stacks of one such layer share what it counts, remembers and asks.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RecommendedLayer {
    telemetry: May<Telemetry>,
    audit: May<AuditPolicy>,
    redact: May<Redaction>,
    authenticate: May<Authenticate>,
    visibility: May<Visible<VisibleFn>>,
    scopes: May<Scopes>,
    hooks: May<Hooks>,
    pin: May<Pin>,
    session: May<SessionPolicy>,
    require_fields: May<RequiredFields>,
    validate: May<Schemas>,
    step_up: May<StepUp>,
    permission: PolicyLayer<Permission>,
    timeout: TimeoutLayer,
    challenge: ChallengeLayer,
    max_depth: u16,
    metrics: Metrics,
    permission_handle: PermissionHandle,
    audit_handle: Option<AuditHandle>,
}

impl RecommendedLayer {
    pub(super) fn new(settings: Settings, code: Code) -> Result<Self, SettingsError> {
        let max_depth = settings.max_depth.unwrap_or(Stack::MAX_DEPTH);
        parts::at_most("max_depth", max_depth.into(), Settings::DEEPEST.into())?;
        let enabled = settings.telemetry.enabled;
        let repairs = settings.validate.as_ref().is_some_and(|validate| validate.repair);
        let telemetry = parts::telemetry(&settings.telemetry, code.telemetry)?;
        let metrics = telemetry.counts().clone();
        let redactor = parts::redactor(settings.redact.as_ref())?;
        let (audit, audit_handle) = parts::audit(settings.audit, code.audit, redactor.clone())?;
        let permission = parts::permission(settings.permission, code.permission)?;
        let session = parts::session(settings.session, code.sessions)?;
        let validate = parts::validate(settings.validate, code.validator)?;
        let hooks = parts::hooks(settings.hooks, code.hooks)?;
        if repairs && hooks.is_some() {
            let why = "hooks would judge the arguments before they are put right; leave out the one or the other";
            return Err(SettingsError::invalid("validate.repair", why));
        }
        Ok(Self {
            telemetry: May::new(enabled.then(|| telemetry.into_policy())),
            audit: May::new(audit.map(AuditLayer::into_policy)),
            redact: May::new(parts::redact(settings.redact, redactor, code.redact).map(RedactLayer::into_policy)),
            authenticate: May::new(parts::authenticate(settings.authenticate, code.authenticate)?.map(AuthenticateLayer::into_policy)),
            scopes: May::new(settings.scopes.map(|rules| ScopesLayer::new(rules).into_policy())),
            visibility: May::new(parts::visibility(settings.visibility, code.visible)?.map(Visible::new)),
            hooks: May::new(hooks.map(HooksLayer::into_policy)),
            pin: May::new(parts::pin(settings.pin).map(PinLayer::into_policy)),
            session: May::new(session.map(SessionLayer::into_policy)),
            require_fields: May::new(settings.require_fields.map(parts::fields).transpose()?.map(RequireFieldsLayer::into_policy)),
            validate: May::new(validate.map(ValidateLayer::into_policy)),
            step_up: May::new(parts::step_up(settings.step_up, code.step_up).map(StepUpLayer::into_policy)),
            permission_handle: permission.handle(),
            permission: PolicyLayer::new(permission.into_policy()),
            timeout: parts::timeout(settings.timeout),
            challenge: code.challenge.apply(parts::challenge(&settings.challenge)),
            max_depth,
            metrics,
            audit_handle,
        })
    }

    /// What is counted; nothing where the settings switch telemetry off.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What swaps rules and approver, explains, and lists what is remembered.
    #[must_use]
    pub fn permission(&self) -> &PermissionHandle {
        &self.permission_handle
    }

    /// What counts and flushes the records of the file that the settings name.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditHandle> {
        self.audit_handle.as_ref()
    }
}

impl<S: ToolStack> Layer<S> for RecommendedLayer {
    type Service = Stack;

    fn layer(&self, inner: S) -> Stack {
        let inner = self.step_up.layer(self.permission.layer(self.timeout.layer(self.challenge.layer(inner))));
        let inner = self.validate.layer(self.require_fields.layer(self.session.layer(inner)));
        let inner = self.visibility.layer(self.scopes.layer(self.hooks.layer(self.pin.layer(inner))));
        let inner = CatchErrorLayer::new().layer(self.authenticate.layer(inner));
        let inner = self.telemetry.layer(self.audit.layer(self.redact.layer(inner)));
        Stack::with_max_depth(CatchPanicLayer::new().layer(inner), self.max_depth)
    }
}

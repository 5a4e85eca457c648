//! The layers of the recommended stack, each from its settings and what code does to it.

use std::{collections::BTreeMap, env};

use super::{
    recommended::{Edits, VisibleFn},
    settings::{self, AskBy, Fields, Hide, HookProgram, PinTo, Results, SettingsError},
};
use crate::{
    layer::{
        AuditLayer, AuthenticateLayer, HooksLayer, PermissionLayer, PinLayer, RedactLayer, RequireFieldsLayer, SessionLayer, StepUpLayer,
        TelemetryLayer, TimeoutLayer, ValidateLayer,
        audit::{AuditFile, AuditHandle, JsonLines, TracingSink},
        authenticate::StaticTokens,
        permission::{Reentry, Rules, TerminalApprover},
        redact::Redactor,
        step_up::StepUpRule,
        telemetry::Metrics,
        validate::Repair,
    },
    model::{Context, Principal, Secret, ToolSpec},
};

/// Fails for what this build does not have.
#[allow(dead_code, reason = "each feature has its place")]
fn lacks<T>(place: &'static str, feature: &'static str) -> Result<T, SettingsError> {
    Err(SettingsError::Feature { place, feature })
}

/// The environment variable that a place names.
fn variable(place: impl Into<String>, name: &str) -> Result<Secret, SettingsError> {
    env::var(name).map(Secret::new).map_err(|error| SettingsError::invalid(place, format!("the environment variable `{name}`: {error}")))
}

pub(super) fn telemetry(settings: &settings::Telemetry, edits: Edits<TelemetryLayer>) -> Result<TelemetryLayer, SettingsError> {
    let mut layer = TelemetryLayer::new().metrics(&Metrics::with_bounds(settings.window, settings.max_tools));
    if !settings.spans {
        layer = layer.without_spans();
    }
    if settings.record_session {
        layer = layer.record_session();
    }
    if settings.remote_parents {
        #[cfg(feature = "opentelemetry")]
        {
            layer = layer.remote_parents();
        }
        #[cfg(not(feature = "opentelemetry"))]
        return lacks("telemetry.remote_parents", "opentelemetry");
    }
    Ok(edits.apply(layer))
}

/// The audit, and the handle of the file that the settings name.
pub(super) fn audit(
    settings: Option<settings::Audit>,
    edits: Edits<AuditLayer>,
    redactor: Option<Redactor>,
) -> Result<(Option<AuditLayer>, Option<AuditHandle>), SettingsError> {
    if settings.is_none() && edits.is_empty() {
        return Ok((None, None));
    }
    let settings = settings.unwrap_or_default();
    let (mut layer, mut handle) = (AuditLayer::without_sinks(), None);
    if let Some(to) = settings.file {
        let mut file = AuditFile::new(to.path).max_bytes(to.max_bytes).max_files(to.max_files);
        file = to.max_age.map_or(file.clone(), |age| file.max_age(age));
        let lines = JsonLines::to_file(if to.sync { file.sync() } else { file }).capacity(to.capacity);
        let sink = lines.start().map_err(|error| SettingsError::invalid("audit.file", error))?;
        handle = Some(sink.handle());
        layer = layer.and(sink);
    }
    if settings.tracing {
        layer = layer.and(TracingSink::new());
    }
    if settings.required {
        layer = layer.required();
    }
    if let Some(name) = settings.digest_key_env {
        layer = layer.digest_key(variable("audit.digest_key_env", &name)?);
    }
    if settings.arguments {
        let redactor = redactor
            .ok_or(SettingsError::Missing { place: "audit.arguments", what: "a section `redact`, which says how they are shown" })?;
        layer = layer.arguments(redactor);
    }
    let layer = edits.apply(layer);
    if !layer.has_sinks() {
        return Err(SettingsError::Missing { place: "audit", what: "a `file`, `tracing` or a sink that code gives" });
    }
    Ok((Some(layer), handle))
}

pub(super) fn redactor(settings: Option<&settings::Redact>) -> Result<Option<Redactor>, SettingsError> {
    let Some(settings) = settings else { return Ok(None) };
    let mut redactor = Redactor::new().common_keys().keys(&settings.keys);
    if settings.secrets {
        redactor = redactor.and(&secrets()?);
    }
    if settings.personal {
        redactor = redactor.and(&personal()?);
    }
    Ok(Some(redactor))
}

#[cfg(feature = "redact")]
#[expect(clippy::unnecessary_wraps, reason = "it fails without the feature")]
fn secrets() -> Result<Redactor, SettingsError> {
    Ok(Redactor::secrets())
}

#[cfg(feature = "redact")]
#[expect(clippy::unnecessary_wraps, reason = "it fails without the feature")]
fn personal() -> Result<Redactor, SettingsError> {
    Ok(Redactor::personal())
}

#[cfg(not(feature = "redact"))]
fn secrets() -> Result<Redactor, SettingsError> {
    lacks("redact.secrets", "redact")
}

#[cfg(not(feature = "redact"))]
fn personal() -> Result<Redactor, SettingsError> {
    lacks("redact.personal", "redact")
}

pub(super) fn redact(settings: Option<settings::Redact>, redactor: Option<Redactor>, edits: Edits<RedactLayer>) -> Option<RedactLayer> {
    if redactor.is_none() && edits.is_empty() {
        return None;
    }
    let mut layer = RedactLayer::new(redactor.unwrap_or_default());
    if settings.is_some_and(|settings| settings.binary) {
        layer = layer.hide_binary();
    }
    Some(edits.apply(layer))
}

pub(super) fn authenticate(
    settings: Option<settings::Authenticate>,
    edits: Edits<AuthenticateLayer>,
) -> Result<Option<AuthenticateLayer>, SettingsError> {
    if settings.is_none() && edits.is_empty() {
        return Ok(None);
    }
    let settings = settings.unwrap_or_default();
    let mut layer = AuthenticateLayer::new();
    if !settings.tokens.is_empty() {
        layer = layer.bearer(tokens(settings.tokens)?);
    }
    for (number, jwt) in settings.jwt.into_iter().enumerate() {
        layer = issuer(layer, number, jwt)?;
    }
    if settings.trust_context {
        layer = layer.trust_context();
    }
    if settings.anonymous {
        layer = layer.allow_anonymous();
    }
    if let Some(realm) = settings.realm {
        layer = layer.realm(realm);
    }
    if let Some(remember) = settings.remember {
        layer = layer.remember(remember.most, remember.at_most);
    }
    let layer = edits.apply(layer);
    if !layer.has_sources() {
        let what = "somebody to believe: `tokens`, `jwt`, `trust_context`, `anonymous` or a verifier that code gives";
        return Err(SettingsError::Missing { place: "authenticate", what });
    }
    Ok(Some(layer))
}

fn tokens(tokens: Vec<settings::Token>) -> Result<StaticTokens, SettingsError> {
    tokens.into_iter().enumerate().try_fold(StaticTokens::new(), |known, (number, token)| {
        let place = format!("authenticate.tokens[{number}].env");
        let principal = token.scopes.into_iter().fold(Principal::new(token.subject), Principal::scope);
        known.token(variable(place.clone(), &token.env)?, principal).map_err(|error| SettingsError::invalid(place, error))
    })
}

#[cfg(feature = "jwt")]
fn issuer(layer: AuthenticateLayer, number: usize, jwt: settings::Jwt) -> Result<AuthenticateLayer, SettingsError> {
    use crate::layer::authenticate::jwt::{JwtVerifier, KeySet};

    let place = || format!("authenticate.jwt[{number}]");
    let invalid = |error: crate::BoxError| SettingsError::invalid(format!("{}.keys_file", place()), error);
    let document = std::fs::read_to_string(&jwt.keys_file).map_err(|error| invalid(error.into()))?;
    let keys = KeySet::from_json(&document).map_err(|error| invalid(error.into()))?;
    let verifier = JwtVerifier::with_keys(keys, jwt.issuer, jwt.audience).map_err(|error| SettingsError::invalid(place(), error))?;
    Ok(layer.bearer(jwt.leeway.map_or(verifier.clone(), |leeway| verifier.leeway(leeway))))
}

#[cfg(not(feature = "jwt"))]
fn issuer(_: AuthenticateLayer, _: usize, _: settings::Jwt) -> Result<AuthenticateLayer, SettingsError> {
    lacks("authenticate.jwt", "jwt")
}

pub(super) fn visibility(hidden: Vec<Hide>, code: Vec<VisibleFn>) -> Option<VisibleFn> {
    if hidden.is_empty() && code.is_empty() {
        return None;
    }
    Some(Box::new(move |tool, context| {
        !hidden.iter().any(|hide| hide.hides(tool, context)) && code.iter().all(|visible| visible(tool, context))
    }))
}

impl Hide {
    fn hides(&self, tool: &ToolSpec, context: &Context) -> bool {
        let about = self.names.iter().any(|name| name.matches(&tool.name)) || self.tags.iter().any(|tag| tool.has_tag(tag));
        let spared = !self.unless_scopes.is_empty() && self.unless_scopes.iter().all(|scope| context.principal().has_scope(scope));
        about && !spared
    }
}

pub(super) fn hooks(programs: Vec<HookProgram>, edits: Edits<HooksLayer>) -> Result<Option<HooksLayer>, SettingsError> {
    if programs.is_empty() && edits.is_empty() {
        return Ok(None);
    }
    let layer = programs.into_iter().enumerate().try_fold(HooksLayer::new(), |layer, (number, program)| hook(layer, number, program))?;
    Ok(Some(edits.apply(layer)))
}

#[cfg(feature = "process")]
fn hook(layer: HooksLayer, number: usize, program: HookProgram) -> Result<HooksLayer, SettingsError> {
    use crate::layer::hooks::external::ExternalHook;

    let external = ExternalHook::new(program.name, program.program);
    let external = program.args.iter().fold(external, ExternalHook::arg);
    let mut hook = match program.on {
        settings::HookEvent::Before => external.before(),
        settings::HookEvent::After => external.after(),
    };
    if !program.tools.is_any() {
        hook = hook.only(program.tools);
    }
    if let Some(timeout) = program.timeout {
        hook = hook.timeout(timeout);
    }
    if program.fail_open {
        hook = hook.fail_open();
    }
    layer.try_hook(hook).map_err(|error| SettingsError::invalid(format!("hooks[{number}]"), error))
}

#[cfg(not(feature = "process"))]
fn hook(_: HooksLayer, _: usize, _: HookProgram) -> Result<HooksLayer, SettingsError> {
    lacks("hooks", "process")
}

pub(super) fn pin(pinned: BTreeMap<String, PinTo>) -> Option<PinLayer> {
    let subject = |context: &Context| Some(context.principal()).filter(|who| !who.is_anonymous()).map(|who| who.subject.clone());
    pinned.into_iter().fold(None, |layer: Option<PinLayer>, (name, to)| {
        Some(match (layer, to) {
            (None, PinTo::Session) => PinLayer::session(&name),
            (None, PinTo::Subject) => PinLayer::value(&name, subject),
            (Some(layer), PinTo::Session) => layer.and_session(&name),
            (Some(layer), PinTo::Subject) => layer.and_value(&name, subject),
        })
    })
}

pub(super) fn session(settings: Option<settings::Session>, code: Option<SessionLayer>) -> Result<Option<SessionLayer>, SettingsError> {
    let (settings, layer) = match (settings, code) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(SettingsError::Missing { place: "session", what: "a store, which code gives by `sessions`" }),
        (None, Some(_)) => return Err(SettingsError::Missing { place: "session", what: "the arguments that name sessions of the store" }),
        (Some(settings), Some(layer)) => (settings, layer),
    };
    let mut layer = settings.arguments.iter().fold(layer, |layer, name| layer.argument(name));
    layer = settings.required.iter().fold(layer, |layer, name| layer.required(name));
    if settings.open {
        layer = layer.require_open();
    }
    if settings.refresh {
        layer = layer.refresh();
    }
    Ok(Some(settings.tools.map_or_else(|| layer.clone(), |tools| layer.clone().only(tools))))
}

pub(super) fn fields(fields: Fields) -> RequireFieldsLayer {
    let layer = if fields.truthy { RequireFieldsLayer::truthy(fields.names) } else { RequireFieldsLayer::present(fields.names) };
    match fields.tools {
        Some(tools) => layer.only(tools),
        None => layer,
    }
}

pub(super) fn validate(settings: Option<settings::Validate>, code: Option<ValidateLayer>) -> Result<Option<ValidateLayer>, SettingsError> {
    let Some(settings) = settings else { return Ok(None) };
    let layer = code.map_or_else(json_schema, Ok)?;
    let layer = match settings.results {
        Results::Refuse => layer,
        Results::Mark => layer.mark_results(),
        Results::Pass => layer.arguments_only(),
    };
    Ok(Some(if settings.repair { layer.repair(Repair::new()) } else { layer }))
}

#[cfg(feature = "jsonschema")]
#[expect(clippy::unnecessary_wraps, reason = "it fails without the feature")]
fn json_schema() -> Result<ValidateLayer, SettingsError> {
    Ok(ValidateLayer::json_schema())
}

#[cfg(not(feature = "jsonschema"))]
fn json_schema() -> Result<ValidateLayer, SettingsError> {
    lacks("validate", "jsonschema")
}

pub(super) fn step_up(rules: Vec<StepUpRule>, edits: Edits<StepUpLayer>) -> Option<StepUpLayer> {
    (!rules.is_empty() || !edits.is_empty()).then(|| edits.apply(StepUpLayer::new(rules)))
}

pub(super) fn permission(settings: settings::Permission, edits: Edits<PermissionLayer>) -> Result<PermissionLayer, SettingsError> {
    let rules = Rules::new(settings.rules).map_err(|error| SettingsError::invalid("permission.rules", error))?;
    let mut layer = PermissionLayer::new(rules, settings.unmatched).ask_within(settings.ask_within);
    layer = match settings.ask {
        Some(AskBy::Reentry) => layer.ask_by_reentry(Reentry::new()),
        Some(AskBy::Terminal) => layer.ask(TerminalApprover::new()),
        None => layer,
    };
    if settings.audit_only {
        layer = layer.audit_only();
    }
    Ok(edits.apply(layer))
}

pub(super) fn timeout(settings: settings::Timeout) -> TimeoutLayer {
    let layer = TimeoutLayer::new(settings.total);
    match settings.idle {
        Some(idle) => layer.idle(idle),
        None => layer,
    }
}

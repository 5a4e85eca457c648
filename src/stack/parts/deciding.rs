use std::collections::BTreeMap;

#[allow(unused_imports, reason = "which features there are decides")]
use super::lacks;
use crate::{
    layer::{
        HooksLayer, PermissionLayer, PinLayer, RequireFieldsLayer, SessionLayer, TimeoutLayer, ValidateLayer,
        permission::{Reentry, Rules, TerminalApprover},
        validate::Repair,
    },
    model::{Context, ToolSpec},
    stack::{
        recommended::{Edits, VisibleFn},
        settings::{self, AskBy, Fields, Hide, HookProgram, PinTo, Results, SettingsError},
    },
};

pub(in crate::stack) fn visibility(hidden: Vec<Hide>, code: Vec<VisibleFn>) -> Result<Option<VisibleFn>, SettingsError> {
    // Whoever leaves the tools out may mean all of them, and would have hidden none.
    if let Some(number) = hidden.iter().position(|hide| hide.names.is_empty() && hide.tags.is_empty()) {
        let why = "it lacks the tools that it hides, as `names` or `tags`; `names = [\"*\"]` for all";
        return Err(SettingsError::invalid(format!("visibility[{number}]"), why));
    }
    if hidden.is_empty() && code.is_empty() {
        return Ok(None);
    }
    Ok(Some(Box::new(move |tool, context| {
        !hidden.iter().any(|hide| hide.hides(tool, context)) && code.iter().all(|visible| visible(tool, context))
    })))
}

impl Hide {
    fn hides(&self, tool: &ToolSpec, context: &Context) -> bool {
        let about = self.names.iter().any(|name| name.matches(&tool.name)) || self.tags.iter().any(|tag| tool.has_tag(tag));
        let spared = !self.unless_scopes.is_empty() && self.unless_scopes.iter().all(|scope| context.principal().has_scope(scope));
        about && !spared
    }
}

pub(in crate::stack) fn hooks(programs: Vec<HookProgram>, edits: Edits<HooksLayer>) -> Result<Option<HooksLayer>, SettingsError> {
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

pub(in crate::stack) fn pin(pinned: BTreeMap<String, PinTo>) -> Option<PinLayer> {
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

pub(in crate::stack) fn session(
    settings: Option<settings::Session>,
    code: Option<SessionLayer>,
) -> Result<Option<SessionLayer>, SettingsError> {
    let (settings, layer) = match (settings, code) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(SettingsError::Missing { place: "session", what: "a store, which code gives by `sessions`" }),
        (None, Some(_)) => return Err(SettingsError::Missing { place: "session", what: "the arguments that name sessions of the store" }),
        (Some(settings), Some(layer)) => (settings, layer),
    };
    let mut layer = settings.arguments.iter().fold(layer, |layer, name| layer.argument(name));
    layer = settings.required.iter().fold(layer, |layer, name| layer.required(name));
    if !layer.has_handles() {
        return Err(SettingsError::Missing { place: "session", what: "the `arguments` or the `required` ones that name a session" });
    }
    if settings.open {
        layer = layer.require_open();
    }
    if settings.refresh {
        layer = layer.refresh();
    }
    Ok(Some(settings.tools.map_or_else(|| layer.clone(), |tools| layer.clone().only(tools))))
}

pub(in crate::stack) fn fields(fields: Fields) -> Result<RequireFieldsLayer, SettingsError> {
    if fields.names.is_empty() {
        return Err(SettingsError::Missing { place: "require_fields", what: "the `names` of what has to be there" });
    }
    let layer = if fields.truthy { RequireFieldsLayer::truthy(fields.names) } else { RequireFieldsLayer::present(fields.names) };
    Ok(match fields.tools {
        Some(tools) => layer.only(tools),
        None => layer,
    })
}

pub(in crate::stack) fn validate(
    settings: Option<settings::Validate>,
    code: Option<ValidateLayer>,
) -> Result<Option<ValidateLayer>, SettingsError> {
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

pub(in crate::stack) fn permission(
    settings: settings::Permission,
    edits: Edits<PermissionLayer>,
) -> Result<PermissionLayer, SettingsError> {
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

pub(in crate::stack) fn timeout(settings: settings::Timeout) -> TimeoutLayer {
    let layer = TimeoutLayer::new(settings.total);
    match settings.idle {
        Some(idle) => layer.idle(idle),
        None => layer,
    }
}

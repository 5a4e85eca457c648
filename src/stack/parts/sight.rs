#[allow(unused_imports, reason = "which features there are decides")]
use super::lacks;
use super::{at_most, variable};
use crate::{
    layer::{
        AuditLayer, RedactLayer, TelemetryLayer,
        audit::{AuditFile, AuditHandle, JsonLines, TracingSink},
        redact::Redactor,
        telemetry::Metrics,
    },
    stack::{
        recommended::Edits,
        settings::{self, SettingsError},
    },
};

pub(in crate::stack) fn telemetry(settings: &settings::Telemetry, edits: Edits<TelemetryLayer>) -> Result<TelemetryLayer, SettingsError> {
    for (place, value, most) in
        [("telemetry.window", settings.window, Metrics::LARGEST_WINDOW), ("telemetry.max_tools", settings.max_tools, Metrics::MOST_TOOLS)]
    {
        at_most(place, value, most)?;
    }
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
pub(in crate::stack) fn audit(
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

pub(in crate::stack) fn redactor(settings: Option<&settings::Redact>) -> Result<Option<Redactor>, SettingsError> {
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

pub(in crate::stack) fn redact(
    settings: Option<settings::Redact>,
    redactor: Option<Redactor>,
    edits: Edits<RedactLayer>,
) -> Option<RedactLayer> {
    if redactor.is_none() && edits.is_empty() {
        return None;
    }
    let mut layer = RedactLayer::new(redactor.unwrap_or_default());
    if settings.is_some_and(|settings| settings.binary) {
        layer = layer.hide_binary();
    }
    Some(edits.apply(layer))
}

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{Hiding, REDACTED, Redactor, Typed};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    layer::{
        around::{Ending, Policed, Policy, PolicyLayer, Site, Step},
        per_tool::PerTool,
        validate::{Check, Validator},
    },
    model::{Arguments, Listen, Progress, ProgressUpdate, ToolCall, ToolResponse, ToolResult, strict},
    operation::{Reply, View},
    tool::ToolEntry,
};

/// Hides secrets in results; see the [module](super).
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RedactLayer {
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    to_model: Redactor,
    to_tool: Option<Redactor>,
    typed: Option<Typed>,
    binary: bool,
    validator: Option<Arc<dyn Validator>>,
}

/// A service whose results are redacted.
pub type Redact<S> = Policed<S, Redaction>;

/// The policy of a [`RedactLayer`].
pub struct Redaction {
    settings: Settings,
    checks: PerTool<Option<Box<dyn Check>>>,
}

impl RedactLayer {
    /// Hides this in results, and in refusals from further in. Calls go on as they are.
    pub const fn new(redactor: Redactor) -> Self {
        Self { settings: Settings { to_model: redactor, to_tool: None, typed: None, binary: false, validator: None } }
    }

    /// Hides that in arguments too, before the tool gets them. A tool cannot use what it does not get: this is for data that must not
    /// leave, not for secrets that the tool needs.
    pub fn to_tool(mut self, redactor: Redactor) -> Self {
        self.settings.to_tool = Some(redactor);
        self
    }

    /// What stands in the place of hidden JSON that is no text. If nothing is said, [`Typed::Same`] for tools with an output schema and
    /// [`Typed::Marker`] for others.
    pub const fn typed(mut self, typed: Typed) -> Self {
        self.settings.typed = Some(typed);
        self
    }

    /// Checks structured content that was redacted against the output schema of its tool. What does not pass, such as a marker where
    /// the schema wants a date, is removed whole; `_meta` says so under [`REDACTED`].
    pub fn keep_schema(mut self, validator: impl Validator) -> Self {
        self.settings.validator = Some(Arc::new(validator));
        self
    }

    /// Hides images, audio and other content that is no text, whole.
    pub const fn hide_binary(mut self) -> Self {
        self.settings.binary = true;
        self
    }
}

impl RedactLayer {
    pub(crate) fn into_policy(self) -> Redaction {
        const MAX_TOOLS: usize = 16 * 1024;
        Redaction { settings: self.settings, checks: PerTool::new(MAX_TOOLS) }
    }
}

impl<S> Layer<S> for RedactLayer {
    type Service = Redact<S>;

    fn layer(&self, inner: S) -> Redact<S> {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

/// What of a tool counts for its result.
#[doc(hidden)]
#[derive(Default)]
pub struct Promised {
    schema: bool,
    check: Option<Arc<Option<Box<dyn Check>>>>,
}

impl Redaction {
    fn promised(&self, tool: Option<&ToolEntry>) -> Promised {
        let Some((tool, schema)) = tool.and_then(|tool| Some((tool, tool.spec().output_schema()?))) else { return Promised::default() };
        let check =
            self.settings.validator.as_ref().map(|validator| {
                self.checks.get(tool, || strict::parse(schema.get()).ok().and_then(|schema| validator.compile(&schema).ok()))
            });
        Promised { schema: true, check }
    }

    fn arguments(&self, call: &mut ToolCall) -> Result<(), Refusal> {
        let Some(redactor) = &self.settings.to_tool else { return Ok(()) };
        let text = call.arguments.as_json().map_err(|error| Refusal::internal(error).with_by(NAME))?;
        let typed = self.settings.typed.unwrap_or(Typed::Same);
        if let Some(changed) = redactor.changed(text, typed) {
            call.arguments = Arguments::from_text(changed);
        }
        Ok(())
    }
}

impl Redaction {
    /// Hides in reports of progress what is hidden in the result: they reach the same reader, and earlier.
    fn listen(&self, call: &mut ToolCall) {
        if !call.context.progress().is_listening() {
            return;
        }
        let reports = Reports { outward: call.context.progress().clone(), redactor: self.settings.to_model.clone() };
        call.context = std::mem::take(&mut call.context).with_progress(Progress::listener(reports));
    }
}

/// Passes reports of progress on, without what is to be hidden.
struct Reports {
    outward: Progress,
    redactor: Redactor,
}

impl Listen for Reports {
    fn heard(&self, mut update: ProgressUpdate) {
        update.message = update.message.map(|message| self.redactor.text(&message).into_owned());
        self.outward.report(update);
    }

    fn alive(&self) {
        self.outward.alive();
    }
}

/// Takes out structured content that is not what the schema promises. One that cannot be checked is not what it promises.
fn keep(result: &mut ToolResult, check: Option<&dyn Check>) {
    let valid = result
        .structured_content()
        .is_some_and(|structured| check.is_some_and(|check| strict::parse(structured.get()).is_ok_and(|value| check.is_valid(&value))));
    if !valid {
        result.set_structured(None);
        // Writing a text cannot fail.
        let _ = result.meta_mut().insert(REDACTED, "structuredContent");
    }
}

const NAME: &str = "redact";

impl Policy for Redaction {
    type State = Promised;

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let note = Note::new(NAME).duty(Duty::ChangesResults).duty(Duty::Redacts);
        Some(match self.settings.to_tool {
            Some(_) => note.duty(Duty::Rewrites).setting("to_tool", true),
            None => note,
        })
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Promised> {
        let View::Call(call) = request else { return Step::Pass };
        match self.arguments(call) {
            Err(refusal) => Step::Refuse(refusal),
            Ok(()) => {
                self.listen(call);
                Step::Continue(self.promised(site.tool))
            }
        }
    }

    fn after(&self, promised: Promised, ending: Ending<'_>) {
        let Ending::Reply(Reply::Call(response)) = ending else { return };
        let typed = self.settings.typed.unwrap_or(if promised.schema { Typed::Same } else { Typed::Marker });
        let hiding = Hiding { redactor: &self.settings.to_model, typed, binary: self.settings.binary };
        let changed = hiding.response(response);
        if let (true, ToolResponse::Complete(result), Some(check)) = (changed, response, promised.check) {
            keep(result, check.as_deref());
        }
    }
}

impl fmt::Debug for Promised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promised").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redaction").field(&self.settings).finish()
    }
}

impl fmt::Debug for RedactLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedactLayer").field(&self.settings).finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("to_model", &self.to_model).field("to_tool", &self.to_tool).finish_non_exhaustive()
    }
}

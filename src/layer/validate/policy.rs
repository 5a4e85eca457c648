use std::{fmt, sync::Arc};

use serde_json::{Value, value::RawValue};
use smallvec::SmallVec;
use tower_layer::Layer;

use super::{Check, NAME, REPAIRED, Repair, Validator, repair::Repaired, unreadable, validator::listed};
use crate::{
    describe::{Duty, Note},
    error::{BoxError, Refusal, RefusalKind},
    layer::{
        around::{Ending, Policed, Policy, PolicyLayer, Site, Step},
        per_tool::PerTool,
    },
    model::{Arguments, ToolCall, ToolResponse, ToolResult, strict},
    operation::{Reply, View},
    router::Catalog,
    tool::ToolEntry,
};

/// Checks arguments and results against the schemas of tools; see the [module](super).
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct ValidateLayer {
    validator: Arc<dyn Validator>,
    settings: Settings,
}

#[derive(Clone, Debug)]
struct Settings {
    results: Results,
    most: usize,
    repair: Option<Repair>,
    max_bytes: usize,
    max_depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Results {
    Pass,
    Refuse,
    Mark,
}

/// A service whose calls and results are checked.
pub type Validate<S> = Policed<S, Schemas>;

/// The policy of a [`ValidateLayer`].
pub struct Schemas {
    validator: Arc<dyn Validator>,
    settings: Settings,
    compiled: PerTool<Compiled>,
}

/// The key in the `_meta` of a result that says how it breaks its output schema, where such results are marked.
pub const INVALID_OUTPUT: &str = "toolstack/invalidOutput";

impl ValidateLayer {
    /// Checks by this engine.
    pub fn new(validator: impl Validator) -> Self {
        let settings = Settings { results: Results::Refuse, most: 5, repair: None, max_bytes: 256 * 1024, max_depth: 64 };
        Self { validator: Arc::new(validator), settings }
    }

    /// Checks by JSON Schema.
    #[cfg(feature = "jsonschema")]
    #[cfg_attr(docsrs, doc(cfg(feature = "jsonschema")))]
    pub fn json_schema() -> Self {
        Self::new(super::JsonSchema::new())
    }

    /// Names at most this many faults; five if nothing else is said.
    pub const fn max_faults(mut self, most: usize) -> Self {
        self.settings.most = if most == 0 { 1 } else { most };
        self
    }

    /// Bounds the schemas that are compiled: 256 KiB and 64 levels if nothing else is said. A tool with a larger one is not called.
    pub const fn max_schema(mut self, bytes: usize, depth: usize) -> Self {
        self.settings.max_bytes = bytes;
        self.settings.max_depth = depth;
        self
    }

    /// Lets results pass unchecked.
    pub const fn arguments_only(mut self) -> Self {
        self.settings.results = Results::Pass;
        self
    }

    /// Gives results that are not valid all the same, and says so in their `_meta` under [`INVALID_OUTPUT`].
    pub const fn mark_results(mut self) -> Self {
        self.settings.results = Results::Mark;
        self
    }

    /// Puts arguments right where they are not valid and can be.
    pub fn repair(mut self, repair: Repair) -> Self {
        self.settings.repair = Some(repair);
        self
    }

    /// Which tools have a schema that cannot be compiled, and why: to be looked at when a stack is built, since such a tool is refused.
    #[must_use]
    pub fn check(&self, catalog: &Catalog) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        for spec in catalog.list().tools() {
            for schema in [Some(spec.input_schema()), spec.output_schema()].into_iter().flatten() {
                if let Err(error) = self.settings.compile(&*self.validator, schema) {
                    faults.push((spec.name.to_string(), error.to_string()));
                }
            }
        }
        faults
    }
}

impl ValidateLayer {
    pub(crate) fn into_policy(self) -> Schemas {
        const MAX_TOOLS: usize = 16 * 1024;
        Schemas { validator: self.validator, settings: self.settings, compiled: PerTool::new(MAX_TOOLS) }
    }
}

impl<S> Layer<S> for ValidateLayer {
    type Service = Validate<S>;

    fn layer(&self, inner: S) -> Validate<S> {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

/// The schemas of one tool.
struct Compiled {
    input: Result<(Box<dyn Check>, Value), Arc<str>>,
    output: Option<Result<Box<dyn Check>, Arc<str>>>,
}

impl Settings {
    fn compile(&self, validator: &dyn Validator, schema: &RawValue) -> Result<(Box<dyn Check>, Value), BoxError> {
        if schema.get().len() > self.max_bytes {
            return Err(format!("the schema has {} bytes, at most {} may be", schema.get().len(), self.max_bytes).into());
        }
        let schema = strict::parse(schema.get())?;
        if is_deeper(&schema, self.max_depth) {
            return Err(format!("the schema nests deeper than {}", self.max_depth).into());
        }
        Ok((validator.compile(&schema)?, schema))
    }
}

/// Whether a value nests deeper than this, found without recursion.
fn is_deeper(value: &Value, depth: usize) -> bool {
    let mut open: SmallVec<[(&Value, usize); 8]> = SmallVec::new();
    open.push((value, 1));
    while let Some((value, level)) = open.pop() {
        if level > depth {
            return true;
        }
        let nested = |child: &&Value| child.is_array() || child.is_object();
        match value {
            Value::Array(items) => open.extend(items.iter().filter(nested).map(|child| (child, level + 1))),
            Value::Object(fields) => open.extend(fields.values().filter(nested).map(|child| (child, level + 1))),
            _ => {}
        }
    }
    false
}

/// As deep as JSON text may be anyway.
const MAX_VALUE_DEPTH: usize = 128;

impl Schemas {
    fn compiled(&self, tool: &ToolEntry) -> Arc<Compiled> {
        self.compiled.get(tool, || {
            let compile = |schema: &RawValue| self.settings.compile(&*self.validator, schema).map_err(|error| error.to_string().into());
            Compiled {
                input: compile(tool.spec().input_schema()),
                output: match self.settings.results {
                    Results::Pass => None,
                    _ => tool.spec().output_schema().map(|schema| compile(schema).map(|(check, _)| check)),
                },
            }
        })
    }

    /// Checks the arguments, and puts them right where that is wanted.
    fn arguments(&self, call: &mut ToolCall, compiled: &Compiled) -> Result<Vec<Repaired>, Refusal> {
        let (check, schema) = compiled.input.as_ref().map_err(|why| broken(call.name().as_str(), "input", why))?;
        let value = call.arguments.value().map_err(|error| unreadable(call, &error))?;
        if is_deeper(value, MAX_VALUE_DEPTH) {
            return Err(invalid(call, format!("they nest deeper than {MAX_VALUE_DEPTH}.")));
        }
        if check.is_valid(value) {
            return Ok(Vec::new());
        }
        if let Some((value, repaired)) = self.settings.repair.as_ref().and_then(|repair| repair.attempt(value, schema, &**check)) {
            call.arguments = Arguments::from(value);
            return Ok(repaired);
        }
        let violations = check.violations(value, self.settings.most.saturating_add(1));
        Err(invalid(call, listed(&violations, self.settings.most)))
    }

    /// What is wrong with a result, in one line.
    fn fault(&self, result: &ToolResult, check: &dyn Check) -> Option<String> {
        let Some(structured) = result.structured_content() else {
            return Some("it has none of the structured content that its schema promises.".to_owned());
        };
        let Ok(value) = strict::parse(structured.get()) else {
            return Some("its structured content is not JSON that can be read exactly.".to_owned());
        };
        if check.is_valid(&value) {
            return None;
        }
        Some(listed(&check.violations(&value, self.settings.most.saturating_add(1)), self.settings.most))
    }

    fn judge(&self, result: &mut ToolResult, state: &Checked) {
        let fault = match &state.compiled.output {
            None => return,
            Some(Err(why)) => {
                *result = ToolResult::refused(broken(&state.name, "output", why));
                return;
            }
            Some(Ok(check)) => self.fault(result, &**check),
        };
        let Some(fault) = fault else { return };
        match self.settings.results {
            Results::Pass => {}
            // Writing a text cannot fail.
            Results::Mark => drop(result.meta_mut().insert(INVALID_OUTPUT, &fault)),
            Results::Refuse => {
                let message = format!("{} ran, and its result is not what it promises: {fault}", state.name);
                *result = ToolResult::refused(Refusal::new(RefusalKind::InvalidOutput, message).with_by(NAME));
            }
        }
    }
}

fn invalid(call: &ToolCall, what: impl fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::InvalidArguments, format!("Invalid arguments for {}: {what}", call.name())).with_by(NAME)
}

fn broken(tool: &str, which: &str, why: &Arc<str>) -> Refusal {
    Refusal::internal(format!("the {which} schema of `{tool}` cannot be used: {why}")).with_by(NAME)
}

/// A call that went inward.
#[doc(hidden)]
pub struct Checked {
    name: Box<str>,
    compiled: Arc<Compiled>,
    repaired: Vec<Repaired>,
}

impl Policy for Schemas {
    type State = Checked;

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let mut note = Note::new(NAME).duty(Duty::Decides).duty(Duty::Validates);
        note = match self.settings.results {
            Results::Pass => note.setting("results", "unchecked"),
            Results::Refuse => note.duty(Duty::ChangesResults),
            Results::Mark => note.duty(Duty::ChangesResults).setting("results", "marked"),
        };
        if let Some(repair) = &self.settings.repair {
            note = note.duty(Duty::Rewrites).setting("repair", repair);
        }
        Some(note)
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Checked> {
        // Without an entry there is no schema: the router answers that there is no such tool, or its fallback does.
        let (View::Call(call), Some(tool)) = (request, site.tool) else { return Step::Pass };
        let compiled = self.compiled(tool);
        match self.arguments(call, &compiled) {
            Err(refusal) => Step::Refuse(refusal),
            Ok(repaired) if repaired.is_empty() && compiled.output.is_none() => Step::Pass,
            Ok(repaired) => Step::Continue(Checked { name: call.name().as_str().into(), compiled, repaired }),
        }
    }

    fn after(&self, state: Checked, ending: Ending<'_>) {
        let Ending::Reply(Reply::Call(response)) = ending else { return };
        if let ToolResponse::Complete(result) = response
            && !result.is_error
            && result.refusal().is_none()
        {
            self.judge(result, &state);
        }
        if !state.repaired.is_empty() {
            let meta = match response {
                ToolResponse::Complete(result) => result.meta_mut(),
                ToolResponse::InputRequired(asked) => &mut asked.meta,
                ToolResponse::Task(task) => &mut task.meta,
            };
            // Texts: nothing in them refuses to be written.
            let _ = meta.insert(REPAIRED, &state.repaired);
        }
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for ValidateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidateLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

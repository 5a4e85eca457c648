use std::{fmt, marker::PhantomData, sync::Arc};

use schemars::{Schema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    BlockingFunction, FromService, Function, Handler, IntoToolResponse, Source, SyncFunction, ToolEntry, ToolFunction, ToolService,
    entry::Registered,
};
use crate::{
    error::BoxError,
    model::{Icon, ToolAnnotations, ToolCall, ToolName, ToolResponse, ToolSpec},
    stack::ToolStack,
};

/// A tool: what it is, and what answers its calls.
///
/// Put it into a [`Router`](crate::Router), which is a service. `Tool` alone, without a parameter, is any tool.
#[must_use = "a tool does nothing until a router has it"]
pub struct Tool<H = Arc<dyn Handler>> {
    spec: ToolSpec,
    source: Source,
    registered: Arc<Registered>,
    handler: H,
}

macro_rules! constructors {
    ($($handler:ident, output: $output:ty, where [$($bound:tt)*], $(#[$doc:meta])* $name:ident, $(#[$doc_state:meta])* $with_state:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        ///
        /// If `name` breaks the rule for [names](ToolName), or the arguments' type is not an object in JSON.
        #[track_caller]
        pub fn $name<F, Via>(name: &str, function: F) -> Tool<$handler<F, (), Via>>
        where
            F: ToolFunction<(), Via>,
            $($bound)*
        {
            $with_state(name, (), function)
        }

        $(#[$doc_state])*
        ///
        /// # Panics
        ///
        /// If `name` breaks the rule for [names](ToolName), or the arguments' type is not an object in JSON.
        #[track_caller]
        pub fn $with_state<F, S, Via>(name: &str, state: S, function: F) -> Tool<$handler<F, S, Via>>
        where
            F: ToolFunction<S, Via>,
            $($bound)*
        {
            let (spec, strict) = spec_of::<F, S, Via, $output>(name);
            Tool::new(spec, $handler { function, state, strict, via: PhantomData })
        }
    )*};
}

constructors! {
    Function, output: <F::Output as Future>::Output, where [F::Output: Future<Output: IntoToolResponse> + Send + 'static],
    /// A tool from an async function of typed arguments and whatever else [`FromCall`](super::FromCall) gives.
    ///
    /// ```
    /// # use schemars::JsonSchema; use serde::Deserialize;
    /// use toolstack::{model::Context, tool::tool_fn};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Greet { name: String }
    ///
    /// async fn greet(args: Greet, context: Context) -> String {
    ///     format!("Hello, {}! You are {} calls deep.", args.name, context.depth())
    /// }
    ///
    /// let tool = tool_fn("greet", greet).describe("Greets somebody").read_only();
    /// # let _ = tool;
    /// ```
    tool_fn,
    /// A tool from an async function that shares state between its calls.
    ///
    /// ```
    /// # use schemars::JsonSchema; use serde::Deserialize;
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    /// use toolstack::tool::{State, tool_fn_with_state};
    ///
    /// async fn count(State(counter): State<Arc<AtomicU64>>) -> u64 {
    ///     counter.fetch_add(1, Ordering::Relaxed)
    /// }
    ///
    /// let tool = tool_fn_with_state("count", Arc::new(AtomicU64::new(0)), count);
    /// # let _ = tool;
    /// ```
    tool_fn_with_state;

    SyncFunction, output: F::Output, where [F::Output: IntoToolResponse],
    /// A tool from a function that neither waits nor blocks. It costs no box.
    sync_tool_fn,
    /// A tool from a function that neither waits nor blocks, and shares state between its calls.
    sync_tool_fn_with_state;

    BlockingFunction, output: F::Output, where [F::Output: IntoToolResponse + Send + 'static],
    /// A tool from a function that blocks: reads a disk, computes for long. It runs on a thread where it may.
    ///
    /// A dropped call does not stop it. A function that runs for long takes [`Cancellation`](crate::model::Cancellation) and looks.
    blocking_tool_fn,
    /// A tool from a function that blocks, and shares state between its calls.
    blocking_tool_fn_with_state;
}

/// The spec, and whether the arguments are read strictly.
#[track_caller]
fn spec_of<F: ToolFunction<S, Via>, S, Via, Output: IntoToolResponse>(name: &str) -> (ToolSpec, bool) {
    let name = or_panic(name, "as a name", ToolName::new(name));
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let input = F::input_schema(&mut settings.clone().for_deserialize().into_generator());
    let output = Output::output_schema(&mut settings.for_serialize().into_generator());

    let mut spec = ToolSpec::new(name.clone());
    let strict = input.as_ref().is_some_and(|schema| keeps_any_key(schema.as_value()));
    if let Some(schema) = input {
        spec = or_panic(&name, "its arguments", spec.with_input_schema(&object(schema)));
    }
    if let Some(schema) = output {
        spec = or_panic(&name, "its result", spec.with_output_schema(&schema));
    }
    (spec, strict)
}

/// Whether a value of this schema may hold keys that the type does not name, as maps and `Value` do. Serde lets a struct's field come but
/// once, and a map's key as often as it likes.
fn keeps_any_key(schema: &Value) -> bool {
    const SAYS_NOTHING: [&str; 9] =
        ["$comment", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];
    let Value::Object(schema) = schema else { return *schema == Value::Bool(true) };
    let takes_anything = schema.keys().all(|keyword| SAYS_NOTHING.contains(&keyword.as_str()));
    takes_anything
        || schema.iter().any(|(keyword, part)| match (keyword.as_str(), part) {
            ("additionalProperties", part) => *part != Value::Bool(false),
            ("patternProperties", _) => true,
            ("properties" | "$defs", Value::Object(parts)) => parts.values().any(keeps_any_key),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(parts)) => parts.iter().any(keeps_any_key),
            ("items", part) => keeps_any_key(part),
            _ => false,
        })
}

/// What cannot be a tool panics where the tool is set up.
#[track_caller]
fn or_panic<T, E: fmt::Display>(name: &str, part: &str, result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the tool `{name}`, {part}: {error}"),
    }
}

/// Arguments are an object. A schema that leaves the type open, such as that of an enum, gains the word.
fn object(mut schema: Schema) -> Schema {
    if schema.as_bool() == Some(true) || schema.as_object().is_some_and(|schema| !schema.contains_key("type")) {
        schema.insert("type".to_owned(), "object".into());
    }
    schema
}

impl<S> Tool<FromService<S>> {
    /// A tool that any service answers. Its readiness is driven within the call.
    pub fn from_service(spec: ToolSpec, service: S) -> Self
    where
        S: Service<ToolCall, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        S::Response: Into<ToolResponse>,
        S::Future: Send + 'static,
    {
        Self::new(spec, FromService::new(service))
    }
}

impl<H> Tool<H> {
    /// A tool of this program that `handler` answers.
    pub fn new(spec: ToolSpec, handler: H) -> Self {
        Self { spec, source: Source::LOCAL, registered: Arc::default(), handler }
    }

    /// What the tool is.
    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What the tool is, to change.
    pub fn spec_mut(&mut self) -> &mut ToolSpec {
        &mut self.spec
    }

    /// Says what the tool does and when to use it, to the model.
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.spec.description = Some(description.into());
        self
    }

    /// Sets a name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.spec.title = Some(title.into());
        self
    }

    /// Adds a word that layers select by.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.spec.tags.insert(tag.into());
        self
    }

    /// Adds a picture.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.spec.icons.push(icon);
        self
    }

    fn annotate(mut self, set: impl FnOnce(&mut ToolAnnotations)) -> Self {
        set(&mut self.spec.annotations);
        self
    }

    /// Says that the tool changes nothing.
    pub fn read_only(self) -> Self {
        self.annotate(|hints| hints.read_only_hint = Some(true))
    }

    /// Says that the tool changes things and may destroy some.
    pub fn destructive(self) -> Self {
        self.annotate(|hints| (hints.read_only_hint, hints.destructive_hint) = (Some(false), Some(true)))
    }

    /// Says that the tool changes things, and destroys none.
    pub fn additive(self) -> Self {
        self.annotate(|hints| (hints.read_only_hint, hints.destructive_hint) = (Some(false), Some(false)))
    }

    /// Says that doing it twice with the same arguments is the same as doing it once.
    pub fn idempotent(self) -> Self {
        self.annotate(|hints| hints.idempotent_hint = Some(true))
    }

    /// Says whether the tool reaches things outside, such as the web.
    pub fn open_world(self, open: bool) -> Self {
        self.annotate(|hints| hints.open_world_hint = Some(open))
    }

    /// Sets the schema of the arguments, for a tool that takes them as they come.
    ///
    /// # Panics
    ///
    /// If it is not an object that says `"type": "object"`. [`ToolSpec::with_input_schema`] returns an error instead.
    #[track_caller]
    pub fn input_schema<T: Serialize + ?Sized>(mut self, schema: &T) -> Self {
        let name = self.spec.name.clone();
        self.spec = or_panic(&name, "its arguments", self.spec.with_input_schema(schema));
        self
    }

    /// Sets where the tool comes from.
    pub fn source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Puts a layer around this tool alone. The last one added is outermost.
    ///
    /// The layer sees calls and lists: one that fixes its request type goes into [`calls`](crate::layer::calls()), as it does in a stack.
    /// What decides who may *see* the tool belongs around the router: a router lists its tools without asking the layers of each.
    pub fn layer<L>(self, layer: L) -> Tool<FromService<L::Service>>
    where
        H: Handler,
        L: Layer<ToolService<H>, Service: ToolStack>,
    {
        let within = ToolService::new(Arc::clone(&self.registered), self.handler);
        Tool { spec: self.spec, source: self.source, registered: self.registered, handler: FromService::described(layer.layer(within)) }
    }

    /// Any tool: the same one, without its type.
    pub fn boxed(self) -> Tool
    where
        H: Handler,
    {
        Tool { spec: self.spec, source: self.source, registered: self.registered, handler: Arc::new(self.handler) }
    }

    pub(crate) fn into_parts(self) -> (ToolSpec, Source, H) {
        self.registered.set(|| ToolEntry::new(Arc::new(self.spec.clone()), self.source.clone()));
        (self.spec, self.source, self.handler)
    }
}

impl<H: Clone> Clone for Tool<H> {
    fn clone(&self) -> Self {
        Self {
            spec: self.spec.clone(),
            source: self.source.clone(),
            registered: Arc::clone(&self.registered),
            handler: self.handler.clone(),
        }
    }
}

impl<H> fmt::Debug for Tool<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.spec.name).field("source", &self.source).finish_non_exhaustive()
    }
}

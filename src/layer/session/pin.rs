//! Sets arguments that the model may not choose; see [`PinLayer`].

use std::{fmt, sync::Arc};

use serde_json::value::RawValue;
use smol_str::SmolStr;
use tower_layer::Layer;

use super::cut::{raw, without};
use crate::{
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    layer::{
        around::{Ending, Policed, Policy, PolicyLayer, Site, Step},
        per_tool::PerTool,
    },
    model::{
        Arguments, Context, RawObject, ToolCall, ToolSpec,
        owned::{Owns, same_argument},
    },
    operation::{Reply, View},
};

/// Sets arguments from the context, whatever the model chose, and takes them out of the listed schemas.
///
/// A model that is offered a `session_id` will sooner or later send somebody else's. What it is not offered, and what is overwritten
/// where it sends it all the same, it cannot choose. Lists and calls agree: the tools as listed have no such parameter, and each tool
/// that has one gets the pinned value.
///
/// A parameter is recognised at the top level of a schema: in its `properties`, `required` and `dependentRequired`, in a `patternProperties`
/// of its name alone, and in those of its `allOf`, `anyOf`, `oneOf`, `if`, `then`, `else`, `dependentSchemas` and of what it refers to within
/// the same schema. Other patterns are left alone. A tool that does not have it is not given it, unless the call brings it.
///
/// # Example
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{RefusalKind, Router, StackExt, ToolCall, layer::PinLayer, model::Context, tool::sync_tool_fn};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Note { session_id: String, text: String }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let stack = ServiceBuilder::new()
///     .layer(PinLayer::session("session_id"))
///     .service(Router::new().tool(sync_tool_fn("note", |note: Note| format!("{}: {}", note.session_id, note.text))));
///
/// let listed = stack.list_tools().await;
/// assert!(!listed.get("note").unwrap().input_schema().get().contains("session_id"));
///
/// let call = ToolCall::new("note", json!({ "session_id": "of somebody else", "text": "hi" }));
/// let answer = stack.run_call(call.clone().with_context(Context::new().with_session("s1"))).await;
/// assert_eq!(answer.as_text().unwrap(), "s1: hi");
/// assert_eq!(stack.run_call(call).await.refusal().unwrap().kind(), RefusalKind::SessionNotFound);
/// # }
/// ```
///
/// # Order
///
/// Outside whatever judges a call, validation and [`SessionLayer`](super::SessionLayer) included: they see the value that the tool gets.
/// Inside whatever else changes arguments, hooks included: what is changed further in is not pinned. An approver's edit of a pinned
/// argument is refused by the [permission layer](crate::layer::permission).
///
/// # Refusals
///
/// [`SessionNotFound`](RefusalKind::SessionNotFound) where there is nothing to set a pinned session to, [`Denied`](RefusalKind::Denied)
/// for any other value, and [`InvalidArguments`](RefusalKind::InvalidArguments) for arguments that are no object.
///
/// # Cancellation
///
/// Holds nothing.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct PinLayer(Vec<Pinning>);

#[derive(Clone)]
struct Pinning {
    name: SmolStr,
    value: Option<Arc<dyn Fn(&Context) -> Option<Box<RawValue>> + Send + Sync>>,
}

/// A service whose calls have some arguments set.
pub type Pinned<S> = Policed<S, Pin>;

/// The policy of a [`PinLayer`].
pub struct Pin {
    pinnings: Vec<Pinning>,
    owned: Arc<Owned>,
    /// Which of the pinnings a tool has.
    declared: PerTool<Vec<bool>>,
}

impl PinLayer {
    /// Sets this argument to the [session](Context::session) of the context.
    pub fn session(name: &str) -> Self {
        Self(Vec::new()).and_session(name)
    }

    /// Sets this argument to the value that `value` takes from the context; `None` refuses the call.
    pub fn value<V: Into<serde_json::Value>>(name: &str, value: impl Fn(&Context) -> Option<V> + Send + Sync + 'static) -> Self {
        Self(Vec::new()).and_value(name, value)
    }

    /// Sets this one to the session too.
    pub fn and_session(mut self, name: &str) -> Self {
        self.0.push(Pinning { name: SmolStr::new(name), value: None });
        self
    }

    /// Sets this one too.
    pub fn and_value<V: Into<serde_json::Value>>(
        mut self,
        name: &str,
        value: impl Fn(&Context) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        let value = move |context: &Context| raw(&value(context)?.into());
        self.0.push(Pinning { name: SmolStr::new(name), value: Some(Arc::new(value)) });
        self
    }
}

impl PinLayer {
    pub(crate) fn into_policy(self) -> Pin {
        let owned = Arc::new(Owned(self.0.iter().map(|pinning| pinning.name.clone()).collect()));
        Pin { pinnings: self.0, owned, declared: PerTool::new(MAX_TOOLS) }
    }
}

impl<S> Layer<S> for PinLayer {
    type Service = Pinned<S>;

    fn layer(&self, inner: S) -> Pinned<S> {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

/// The pinned arguments, which stay as they are from here on.
struct Owned(Box<[SmolStr]>);

impl Owns for Owned {
    fn changed(&self, was: &ToolCall, is: &ToolCall) -> Option<String> {
        self.0.iter().find(|name| !same_argument(&was.arguments, &is.arguments, name)).map(ToString::to_string)
    }
}

const MAX_TOOLS: usize = 16 * 1024;
const NAME: &str = "pin";

impl Pin {
    fn set(&self, call: &mut ToolCall, site: Site<'_>) -> Result<(), Refusal> {
        let declared = site
            .tool
            .map(|tool| self.declared.get(tool, || self.pinnings.iter().map(|pinning| declares(tool.spec(), &pinning.name)).collect()));
        let is_declared = |at: usize| declared.as_ref().is_some_and(|declared| declared[at]);
        let text = call.arguments.as_json().map_err(|error| Refusal::internal(error).with_by(NAME))?;
        let concerned = self.pinnings.iter().enumerate().any(|(at, pinning)| is_declared(at) || mentions(text, &pinning.name));
        if !concerned {
            return Ok(());
        }
        // Field by field, so that nothing else changes: not a number, not the order.
        let mut fields: RawObject = serde_json::from_str(text).map_err(|error| {
            Refusal::new(RefusalKind::InvalidArguments, "The arguments must be a JSON object, with each key once.")
                .with_source(error)
                .with_by(NAME)
        })?;
        let mut changed = false;
        for (at, pinning) in self.pinnings.iter().enumerate() {
            if is_declared(at) || fields.get_raw(&pinning.name).is_some() {
                fields.insert_raw(&pinning.name, pinning.value(&call.context)?);
                changed = true;
            }
        }
        if changed {
            call.arguments = Arguments::from_serialize(&fields).map_err(|error| Refusal::internal(error).with_by(NAME))?;
        }
        Ok(())
    }

    fn listed(&self, spec: &ToolSpec) -> Option<ToolSpec> {
        let schema = spec.input_schema();
        if !self.pinnings.iter().any(|pinning| mentions(schema.get(), &pinning.name)) {
            return None;
        }
        let names: Vec<&str> = self.pinnings.iter().map(|pinning| pinning.name.as_str()).collect();
        spec.clone().with_input_schema(&without(schema, &names)?).ok()
    }
}

impl Pinning {
    fn value(&self, context: &Context) -> Result<Box<RawValue>, Refusal> {
        let (value, kind) = match &self.value {
            None => (context.session().and_then(raw), RefusalKind::SessionNotFound),
            Some(value) => (value(context), RefusalKind::Denied),
        };
        value.ok_or_else(|| {
            let message = match kind {
                RefusalKind::SessionNotFound => "This call belongs to no session.".to_owned(),
                _ => format!("The parameter '{}' is not the caller's to choose, and there is nothing to set it to.", self.name),
            };
            Refusal::new(kind, message).with_by(NAME)
        })
    }
}

/// Whether JSON text may have this key: cheap, and never wrong in saying no. A key can be written with escapes.
fn mentions(json: &str, key: &str) -> bool {
    json.contains(key) || json.contains('\\')
}

fn declares(spec: &ToolSpec, name: &str) -> bool {
    mentions(spec.input_schema().get(), name) && without(spec.input_schema(), &[name]).is_some()
}

impl Policy for Pin {
    /// That it is a list.
    type State = ();

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let names: Vec<&str> = self.pinnings.iter().map(|pinning| pinning.name.as_str()).collect();
        Some(Note::new(NAME).duty(Duty::Pins).duty(Duty::Rewrites).setting("parameters", names.join(" ")))
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
        match request {
            View::Call(call) => match self.set(call, site) {
                Ok(()) => {
                    call.context.own(Arc::clone(&self.owned) as Arc<dyn Owns>);
                    Step::Pass
                }
                Err(refusal) => Step::Refuse(refusal),
            },
            View::List(_) => Step::Continue(()),
            View::Describe(_) => Step::Pass,
        }
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        if let Ending::Reply(Reply::List(list)) = ending {
            list.map(|tool| self.listed(&tool).map_or(tool, Arc::new));
        }
    }
}

impl fmt::Debug for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pin").field(&self.pinnings).finish()
    }
}

use serde_json::Value;
use tower_layer::Layer;

use crate::{
    describe::{Duty, Note},
    error::{MissingParameter, Refusal},
    layer::around::{Policed, Policy, PolicyLayer, Site, Step},
    model::ToolCall,
    operation::View,
    select::ToolSelector,
};

/// Requires that arguments are there, for tools without a schema that says so.
///
/// There are two rules for what counts as missing:
///
/// | argument | [`present`](Self::present) | [`truthy`](Self::truthy) |
/// |---|---|---|
/// | not there, `null` | missing | missing |
/// | `""`, `0`, `false`, `[]`, `{}` | there | missing |
///
/// ```
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{Router, StackExt, layer::RequireFieldsLayer, tool::sync_tool_fn};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let stack = ServiceBuilder::new()
///     .layer(RequireFieldsLayer::present(["title"]))
///     .service(Router::new().tool(sync_tool_fn("note", || "noted")));
/// assert!(stack.call_tool("note", json!({ "title": "" })).await.is_completed());
/// let answer = stack.call_tool("note", json!({})).await;
/// assert_eq!(answer.as_text().unwrap(), "Missing required parameter: 'title'.");
/// # }
/// ```
///
/// # Order
///
/// As [validation](super).
///
/// # Refusals
///
/// [`InvalidArguments`](crate::RefusalKind::InvalidArguments) for the first that is missing, with a [`MissingParameter`] as its
/// source, and for arguments that cannot be read.
///
/// # Cancellation
///
/// Holds nothing.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RequireFieldsLayer(RequiredFields);

/// A service that requires arguments.
pub type RequireFields<S> = Policed<S, RequiredFields>;

/// The policy of a [`RequireFieldsLayer`].
#[derive(Clone, Debug)]
pub struct RequiredFields {
    names: Vec<String>,
    truthy: bool,
    only: Option<ToolSelector>,
}

impl RequireFieldsLayer {
    /// Requires these arguments, and that they are not `null`.
    pub fn present(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(RequiredFields { names: names.into_iter().map(Into::into).collect(), truthy: false, only: None })
    }

    /// Requires these arguments, and that they are not empty, zero or false.
    pub fn truthy(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let Self(present) = Self::present(names);
        Self(RequiredFields { truthy: true, ..present })
    }

    /// Is there for these tools only. A tool that is in no catalog, such as one that a fallback answers, is not among them.
    pub fn only(mut self, tools: ToolSelector) -> Self {
        self.0.only = Some(tools);
        self
    }
}

impl RequireFieldsLayer {
    pub(crate) fn into_policy(self) -> RequiredFields {
        self.0
    }
}

impl<S> Layer<S> for RequireFieldsLayer {
    type Service = RequireFields<S>;

    fn layer(&self, inner: S) -> RequireFields<S> {
        PolicyLayer::new(self.0.clone()).layer(inner)
    }
}

impl RequiredFields {
    fn check(&self, call: &ToolCall) -> Result<(), Refusal> {
        let arguments = call.arguments.object().map_err(|error| super::unreadable(call, &error).with_by(NAME))?;
        let missing = |name: &&String| match arguments.get(name.as_str()) {
            None | Some(Value::Null) => true,
            Some(value) => self.truthy && is_falsy(value),
        };
        match self.names.iter().find(missing) {
            Some(name) => Err(MissingParameter::new(name).into_refusal().with_by(NAME)),
            None => Ok(()),
        }
    }
}

const NAME: &str = "require_fields";

fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

impl Policy for RequiredFields {
    type State = ();

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let mut note = Note::new(NAME).duty(Duty::Decides).duty(Duty::Validates).setting("fields", self.names.join(" "));
        if let Some(only) = &self.only {
            note = note.selects("only", only.clone());
        }
        Some(if self.truthy { note.setting("truthy", true) } else { note })
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
        match request {
            View::Call(call) if self.only.as_ref().is_none_or(|only| site.tool.is_some_and(|tool| only.matches(tool))) => {
                self.check(call).into()
            }
            _ => Step::Pass,
        }
    }
}

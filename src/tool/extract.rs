use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;

use crate::{
    error::{Refusal, RefusalKind},
    model::{Arguments, ArgumentsError, Cancellation, Context, Progress, ToolCall},
    stack::Reentry,
};

/// What a tool function may take: its typed arguments, and what else it wants to know of the call.
///
/// | parameter | is |
/// |---|---|
/// | any `T: DeserializeOwned + JsonSchema` | the arguments; the tool's schema is that of `T` |
/// | [`Arguments`] | the arguments as they came |
/// | [`Context`], [`Progress`], [`Cancellation`] | what the call carries |
/// | [`ToolCall`] | the whole call |
/// | [`State`] | what [`tool_fn_with_state`](super::tool_fn_with_state) gave the tool |
/// | [`Reentry`] | the way to call other tools, through the same stack |
///
/// A type with maps, or with parts that take anything such as `Value`, is read only from arguments that pass the
/// [strict view](Arguments::value): no key stands twice, and no number is rounded.
///
/// `Via` tells the implementations apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a tool function may take",
    note = "typed arguments derive `serde::Deserialize` and `schemars::JsonSchema`; `State<T>` needs `tool_fn_with_state` with a `T`"
)]
pub trait FromCall<S, Via>: Sized {
    /// Takes it out of the call.
    ///
    /// # Errors
    ///
    /// If it is not there, such as arguments that do not fit. The tool is not run then.
    fn from_call(call: &ToolCall, state: &S) -> Result<Self, Refusal>;

    /// The schema of the arguments, where this is the arguments.
    fn input_schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        let _ = generator;
        None
    }
}

/// What [`tool_fn_with_state`](super::tool_fn_with_state) gave the tool.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a wrapper to take apart")]
pub struct State<S>(pub S);

/// Tells the implementations of [`FromCall`] apart.
pub mod via {
    /// Parts of the call.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum Call {}

    /// The state.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum State {}

    /// Typed arguments.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum Typed {}
}

impl<S, T: DeserializeOwned + JsonSchema> FromCall<S, via::Typed> for T {
    // Two results that are most often nothing but moved, if it is left to the compiler.
    #[inline(always)]
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        call.arguments.deserialize().map_err(|error| invalid(call, error))
    }

    fn input_schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.root_schema_for::<T>())
    }
}

#[cold]
pub(super) fn invalid(call: &ToolCall, error: ArgumentsError) -> Refusal {
    let message = format!("Invalid arguments for {}: {}", call.name(), told(&error));
    Refusal::new(RefusalKind::InvalidArguments, message).with_source(error)
}

/// What is wrong with the arguments, and where, without the value that is wrong: it may be a secret, and messages end up in logs. What
/// the type's own `Deserialize` says stands as it is.
fn told(error: &ArgumentsError) -> String {
    let ArgumentsError::Json(json) = error else { return error.to_string() };
    let text = json.to_string();
    for what in ["invalid type: ", "invalid value: ", "unknown variant "] {
        let Some(found) = text.strip_prefix(what) else { continue };
        // The last one, since the value may hold the same words.
        let Some(expected) = found.rfind(", expected ") else { continue };
        // `string "hunter2"`, "integer `5`", "map": the word tells the kind.
        let kind = found[..expected].split(['"', '`']).next().unwrap_or_default();
        return format!("{}{}", format!("{what}{kind}").trim_end(), &found[expected..]);
    }
    text
}

impl<S: Clone> FromCall<S, via::State> for State<S> {
    fn from_call(_: &ToolCall, state: &S) -> Result<Self, Refusal> {
        Ok(Self(state.clone()))
    }
}

impl<S> FromCall<S, via::Call> for ToolCall {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(call.clone())
    }
}

impl<S> FromCall<S, via::Call> for Arguments {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(call.arguments.clone())
    }
}

impl<S> FromCall<S, via::Call> for Context {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(call.context.clone())
    }
}

impl<S> FromCall<S, via::Call> for Progress {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(call.context.progress().clone())
    }
}

impl<S> FromCall<S, via::Call> for Cancellation {
    /// One of the tool's own, which happens with that of the call: to cancel it cancels nobody else's work.
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(call.context.cancellation().map_or_else(Self::new, Self::child))
    }
}

impl<S> FromCall<S, via::Call> for Reentry {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Self::of(call)
    }
}

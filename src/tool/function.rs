use std::{
    any::type_name,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use schemars::{Schema, SchemaGenerator};

use super::{FromCall, Handler, IntoToolResponse, ToolFuture, extract::invalid};
use crate::{
    error::Refusal,
    model::{Cancellation, ToolCall, ToolResponse},
};

/// A function of zero to six parameters, each a [`FromCall`], with any output. `Via` is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that can be a tool",
    note = "its parameters must be typed arguments (`serde::Deserialize` and `schemars::JsonSchema`), `Context`, `State<_>`, or another `FromCall`"
)]
pub trait ToolFunction<S, Via>: Send + Sync + 'static {
    /// What the function gives back: a future, for an async one.
    type Output;

    /// Takes the parameters out of the call and runs the function.
    ///
    /// # Errors
    ///
    /// If a parameter cannot be had; the function is not run then.
    fn run(&self, call: &ToolCall, state: &S) -> Result<Self::Output, Refusal>;

    /// The schema of the arguments; `None` for a function that takes none, or takes them as they come.
    ///
    /// # Panics
    ///
    /// If two parameters are the arguments.
    #[track_caller]
    fn input_schema(generator: &mut SchemaGenerator) -> Option<Schema>;
}

macro_rules! functions {
    ($(($($param:ident $via:ident),*);)*) => {$(
        impl<S, Fun, Output, $($param, $via),*> ToolFunction<S, (Output, $($param, $via),*)> for Fun
        where
            Fun: Fn($($param),*) -> Output + Send + Sync + 'static,
            $($param: FromCall<S, $via>,)*
        {
            type Output = Output;

            #[inline]
            fn run(&self, _call: &ToolCall, _state: &S) -> Result<Output, Refusal> {
                Ok(self($($param::from_call(_call, _state)?),*))
            }

            fn input_schema(_generator: &mut SchemaGenerator) -> Option<Schema> {
                #[allow(unused_mut, reason = "a function may take nothing")]
                let mut schema = None;
                $(if let Some(next) = $param::input_schema(_generator) {
                    assert!(schema.is_none(), "a tool's function takes its arguments as one parameter; two are of types that are read from them");
                    schema = Some(next);
                })*
                schema
            }
        }
    )*};
}

functions! {
    ();
    (A Va);
    (A Va, B Vb);
    (A Va, B Vb, C Vc);
    (A Va, B Vb, C Vc, D Vd);
    (A Va, B Vb, C Vc, D Vd, E Ve);
    (A Va, B Vb, C Vc, D Vd, E Ve, F Vf);
}

macro_rules! handlers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name<F, S, Via> {
            pub(super) function: F,
            pub(super) state: S,
            /// Whether the arguments have to pass the [strict view](crate::model::Arguments::value) first.
            pub(super) strict: bool,
            pub(super) via: PhantomData<fn() -> Via>,
        }

        impl<F: Clone, S: Clone, Via> Clone for $name<F, S, Via> {
            fn clone(&self) -> Self {
                Self { function: self.function.clone(), state: self.state.clone(), strict: self.strict, via: PhantomData }
            }
        }

        impl<F: ToolFunction<S, Via>, S, Via> $name<F, S, Via> {
            #[inline]
            fn run(&self, call: &ToolCall) -> Result<F::Output, Refusal> {
                if self.strict {
                    call.arguments.value().map_err(|error| invalid(call, error))?;
                }
                self.function.run(call, &self.state)
            }
        }

        impl<F, S, Via> fmt::Debug for $name<F, S, Via> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&type_name::<F>()).finish()
            }
        }
    )*};
}

handlers! {
    /// Runs an async function; see [`tool_fn`](super::tool_fn).
    Function;
    /// Runs a function that neither waits nor blocks; see [`sync_tool_fn`](super::sync_tool_fn).
    SyncFunction;
    /// Runs a function on a thread where it may block; see [`blocking_tool_fn`](super::blocking_tool_fn).
    BlockingFunction;
}

impl<F, S, Via> Handler for Function<F, S, Via>
where
    F: ToolFunction<S, Via>,
    F::Output: Future<Output: IntoToolResponse> + Send + 'static,
    S: Send + Sync + 'static,
    Via: 'static,
{
    fn call(&self, mut call: ToolCall) -> ToolFuture {
        self.call_in_place(&mut call)
    }

    fn call_in_place(&self, call: &mut ToolCall) -> ToolFuture {
        match self.run(call) {
            Err(refusal) => ToolFuture::ready(refusal.into()),
            Ok(future) => ToolFuture::new(Answering { future }),
        }
    }
}

pin_project! {
    /// What an async function gives back, as a response. An async block would keep a state of its own about it.
    struct Answering<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future<Output: IntoToolResponse>> Future for Answering<F> {
    type Output = ToolResponse;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ToolResponse> {
        self.project().future.poll(cx).map(IntoToolResponse::into_tool_response)
    }
}

impl<F, S, Via> Handler for SyncFunction<F, S, Via>
where
    F: ToolFunction<S, Via, Output: IntoToolResponse>,
    S: Send + Sync + 'static,
    Via: 'static,
{
    fn call(&self, mut call: ToolCall) -> ToolFuture {
        self.call_in_place(&mut call)
    }

    fn call_in_place(&self, call: &mut ToolCall) -> ToolFuture {
        match self.run(call) {
            Err(refusal) => ToolFuture::ready(refusal.into()),
            Ok(output) => ToolFuture::ready(output.into_tool_response()),
        }
    }
}

impl<F, S, Via> Handler for BlockingFunction<F, S, Via>
where
    F: ToolFunction<S, Via, Output: IntoToolResponse> + Clone,
    S: Clone + Send + Sync + 'static,
    Via: 'static,
{
    fn call(&self, mut call: ToolCall) -> ToolFuture {
        let this = self.clone();
        ToolFuture::new(async move {
            // The thread outlives a dropped call; this is how the function hears of it.
            let cancellation = call.context.cancellation().map_or_else(Cancellation::new, Cancellation::child);
            let _cancel_if_dropped = cancellation.on_drop();
            call.context = call.context.with_cancellation(cancellation);
            let span = tracing::Span::current();
            let work = tokio::task::spawn_blocking(move || span.in_scope(|| this.run(&call).map(IntoToolResponse::into_tool_response)));
            match work.await {
                Ok(Ok(response)) => response,
                Ok(Err(refusal)) => refusal.into(),
                Err(stopped) => match stopped.try_into_panic() {
                    // Goes on where it would have gone without the thread: to whoever catches panics.
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(stopped) => Refusal::internal(stopped).with_by("tool").into(),
                },
            }
        })
    }
}

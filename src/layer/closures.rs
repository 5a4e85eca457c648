//! Layers from closures, for what needs no state and no type of its own.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Refusal, RefusalKind, Router, StackExt, layer::{gate_tool, map_call, map_result}, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(map_result("sign", |result| result.push("-- signed")))
//!     .layer(map_call("old_names", |call| if call.name() == "ping_v1" { call.rename("ping") }))
//!     .layer(gate_tool("read_only", |_, tool| {
//!         if tool.spec().annotations.is_read_only() {
//!             Ok(())
//!         } else {
//!             Err(Refusal::new(RefusalKind::Denied, "Only tools that change nothing may be called.").with_by("read_only"))
//!         }
//!     }))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("ping", || "pong").read_only())
//!         .tool(sync_tool_fn("reset", || "done")));
//!
//! assert_eq!(stack.call_tool("ping_v1", json!({})).await.as_text().as_deref(), Some("pong\n-- signed"));
//! assert_eq!(stack.call_tool("reset", json!({})).await.refusal().unwrap().kind(), RefusalKind::Denied);
//! # }
//! ```
//!
//! # Order
//!
//! What changes calls stands outside what judges them; what changes results stands outside what should see them unchanged.
//!
//! # Refusals
//!
//! Whatever the closure says. [`gate_tool`] answers a call of a tool that does not exist as the router does.
//!
//! # Cancellation
//!
//! [`after`] hears of it; the others hold nothing. Dropping a call while a [`gate_async`] waits drops its future.

use std::{
    any::type_name,
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::future::BoxFuture;

use super::around::{Ending, Policy, PolicyLayer, Site, Step};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    model::{Context, ToolCall, ToolList, ToolResult},
    operation::{Reply, View},
    tool::ToolEntry,
};

macro_rules! closure {
    ($(#[$doc:meta])* $constructor:ident -> $policy:ident, $duty:expr, |$($bound:tt)*) => {
        $(#[$doc])*
        pub fn $constructor<F>(name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<$policy<F>>
        where
            F: $($bound)* + Send + Sync + 'static,
        {
            PolicyLayer::new($policy { name: name.into(), closure })
        }

        closure!(@policy $constructor, $policy, $duty);
    };
    (@policy $constructor:ident, $policy:ident, $duty:expr) => {
        #[doc = concat!("The policy of [`", stringify!($constructor), "`].")]
        pub struct $policy<F> {
            name: Cow<'static, str>,
            closure: F,
        }

        impl<F> $policy<F> {
            fn noted(&self) -> Note {
                let duties: &[Duty] = $duty;
                duties.iter().fold(Note::new(self.name.clone()), |note, duty| note.duty(*duty))
            }
        }

        impl<F> fmt::Debug for $policy<F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($policy)).field("name", &self.name).field("closure", &type_name::<F>()).finish()
            }
        }
    };
}

closure! {
    /// Decides about each call, and may change it.
    gate -> Gate, &[Duty::Decides], |Fn(&mut ToolCall) -> Result<(), Refusal>
}

impl<F: Fn(&mut ToolCall) -> Result<(), Refusal> + Send + Sync + 'static> Policy for Gate<F> {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(call) => held(call, &self.closure).map_err(|refusal| refusal.or_by(&self.name)).into(),
            _ => Step::Pass,
        }
    }
}

/// Runs a closure that may put another call in the place of this one, and holds that to what this one was judged as.
#[inline]
fn held<T>(call: &mut ToolCall, closure: impl FnOnce(&mut ToolCall) -> T) -> T {
    if !call.is_held() {
        return closure(call);
    }
    let judgement = call.judgement();
    let done = closure(call);
    call.hold_to(judgement);
    done
}

closure! {
    /// Decides about each call of a tool by what the tool is.
    gate_tool -> GateTool, &[Duty::Decides], |Fn(&ToolCall, &ToolEntry) -> Result<(), Refusal>
}

impl<F: Fn(&ToolCall, &ToolEntry) -> Result<(), Refusal> + Send + Sync + 'static> Policy for GateTool<F> {
    type State = ();

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
        match (request, site.tool) {
            (View::Call(call), Some(tool)) => (self.closure)(call, tool).map_err(|refusal| refusal.or_by(&self.name)).into(),
            (View::Call(call), None) => Step::refuse(Refusal::unknown_tool(call.name())),
            _ => Step::Pass,
        }
    }
}

/// Decides about each call, and takes the time it needs. No permit of a limit further in is held meanwhile.
///
/// The closure gets a clone of the call, which is cheap. To change the call, use [`gate`] or [`map_call`].
pub fn gate_async<F, Fut>(name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<GateAsync<F>>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Refusal>> + Send + 'static,
{
    PolicyLayer::new(GateAsync { name: name.into(), closure })
}

closure!(@policy gate_async, GateAsync, &[Duty::Decides]);

impl<F, Fut> Policy for GateAsync<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Refusal>> + Send + 'static,
{
    type State = ();

    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) => Step::Wait,
            _ => Step::Pass,
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step> {
        match request {
            View::Call(call) => {
                let decision = (self.closure)(call.clone());
                Box::pin(async move { decision.await.map_err(|refusal| refusal.or_by(&self.name)).into() })
            }
            _ => Box::pin(std::future::ready(Step::Pass)),
        }
    }
}

closure! {
    /// Hears how each call ended, exactly once, also when it is dropped. A panic of the closure is logged, and changes nothing.
    after -> After, &[], |Fn(&Ending<'_>)
}

impl<F: Fn(&Ending<'_>) + Send + Sync + 'static> Policy for After<F> {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) => Step::Continue(()),
            _ => Step::Pass,
        }
    }

    #[inline]
    fn after(&self, (): (), ending: Ending<'_>) {
        if catch_unwind(AssertUnwindSafe(|| (self.closure)(&ending))).is_err() {
            tracing::error!(layer = %self.name, "an observer panicked");
        }
    }
}

closure! {
    /// Changes each call.
    map_call -> MapCall, &[Duty::Rewrites], |Fn(&mut ToolCall)
}

impl<F: Fn(&mut ToolCall) + Send + Sync + 'static> Policy for MapCall<F> {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        if let View::Call(call) = request {
            held(call, &self.closure);
        }
        Step::Pass
    }
}

closure! {
    /// Changes the result of each call that is over, refusals included. A call that asks for input or goes on as a task has none yet.
    map_result -> MapResult, &[Duty::ChangesResults], |Fn(&mut ToolResult)
}

impl<F: Fn(&mut ToolResult) + Send + Sync + 'static> Policy for MapResult<F> {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        match request {
            View::Call(_) => Step::Continue(()),
            _ => Step::Pass,
        }
    }

    #[inline]
    fn after(&self, (): (), ending: Ending<'_>) {
        if let Ending::Reply(Reply::Call(response)) = ending
            && let Some(result) = response.result_mut()
        {
            (self.closure)(result);
        }
    }
}

closure! {
    /// Changes each list. It changes what is shown, and not what may be called: to hide a tool, use a
    /// [`VisibilityLayer`](super::VisibilityLayer).
    map_list -> MapList, &[Duty::ChangesResults], |Fn(&mut ToolList, &Context)
}

impl<F: Fn(&mut ToolList, &Context) + Send + Sync + 'static> Policy for MapList<F> {
    /// Who asked.
    type State = Context;

    fn note(&self) -> Option<Note> {
        Some(self.noted())
    }

    #[inline]
    fn before(&self, request: View<'_>, _: Site<'_>) -> Step<Context> {
        match request {
            View::List(list) => Step::Continue(list.context.clone()),
            _ => Step::Pass,
        }
    }

    #[inline]
    fn after(&self, context: Context, ending: Ending<'_>) {
        if let Ending::Reply(Reply::List(list)) = ending {
            (self.closure)(list, &context);
        }
    }
}

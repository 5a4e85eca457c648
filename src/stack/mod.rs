//! A finished stack: one nameable type for any chain of layers around a router.
//!
//! [`Stack::new`] closes a chain off once. A clone of it goes to every caller, transport and task; all of them share the same layers, so
//! that a limit of one holds through all of them together. It also gives tools a way back in: a tool that takes [`Reentry`] calls other
//! tools through the whole stack.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{Router, Stack, StackExt, stack::Reentry, tool::{sync_tool_fn, tool_fn}};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let tools = Router::new()
//!     .tool(sync_tool_fn("ping", || "pong"))
//!     .tool(tool_fn("twice", |stack: Reentry| async move {
//!         let first = stack.call_tool("ping", json!({})).await;
//!         let second = stack.call_tool("ping", json!({})).await;
//!         format!("{} {}", first.as_text().unwrap_or_default(), second.as_text().unwrap_or_default())
//!     }));
//! let stack: Stack = Stack::new(ServiceBuilder::new().concurrency_limit(2).service(tools));
//!
//! assert_eq!(stack.call_tool("twice", json!({})).await.as_text().as_deref(), Some("pong pong"));
//! # }
//! ```
//!
//! # Calls within calls
//!
//! The inner call passes every layer anew, with the outer one as its [parent](crate::model::Context::parent) and one level deeper. It
//! needs a permit of its own where a limit stands: a tool that calls tools, behind a limit of one, waits for itself. Give such a stack a
//! higher limit, or put the limit around the single tools.

mod chain;
mod instance;
mod parts;
mod recommended;
pub mod settings;

pub use self::{
    chain::RecommendedLayer,
    recommended::{Recommended, recommended},
    settings::{Settings, SettingsError},
};
use std::{
    any::type_name,
    convert::Infallible,
    fmt,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use tower::util::ServiceExt;
use tower_service::Service;

use self::instance::{Instance, Kept};
use crate::{
    describe::{Describe, Description, Note},
    error::{BoxError, Refusal, RefusalKind, refusal_of},
    layer::{
        catch_error::CatchError,
        catch_panic::{CatchPanic, panicked},
    },
    model::{Arguments, CallId, Context, ListTools, ToolCall, ToolList, ToolResponse},
    tool::ToolFuture,
};

/// Any service that answers every operation: what a finished chain of layers around a [`Router`](crate::Router) is.
///
/// Implemented for all that fulfils it. If the compiler says that a chain does not, look for a layer that fixes its request type: it
/// belongs into [`calls`](crate::layer::calls()).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer every operation of a tool stack",
    note = "a layer that fixes its request type, such as tower's buffer, retry and filter, goes into `toolstack::layer::calls`",
    note = "a plain `Service<ToolCall>` becomes a tool by `Tool::from_service`, and a `Router` of it a stack"
)]
pub trait ToolStack:
    Service<ToolCall, Response = ToolResponse, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
    + Service<ListTools, Response = ToolList, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
    + Service<Describe, Response = Description, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> ToolStack for S where
    S: Service<ToolCall, Response = ToolResponse, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
        + Service<ListTools, Response = ToolList, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
        + Service<Describe, Response = Description, Error: Into<BoxError> + Send + 'static, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A [`ToolStack`] without its type. Nothing in here fails or panics.
pub(crate) trait Erased: Send + Sync {
    fn call(&self, call: ToolCall) -> ToolFuture;
    fn list(&self, list: ListTools) -> BoxFuture<'static, ToolList>;
    fn describe(&self, describe: Describe) -> BoxFuture<'static, Description>;

    /// A clone to keep, where that is worth more than a clone for each call.
    fn instance(&self) -> Option<Box<dyn Instance>> {
        None
    }

    /// Its type, which names the layers of other crates in it.
    fn type_name(&self) -> &'static str {
        type_name::<Self>()
    }
}

pub(crate) struct Closed<S>(pub(crate) S);

/// Runs one operation to its response, whatever happens: the one way in which this crate enters a stack.
pub(crate) async fn close<S, Op>(service: S, operation: Op) -> Op::Response
where
    Op: crate::operation::Operation,
    S: Service<Op, Response = Op::Response, Error: Into<BoxError>>,
{
    CatchError::new(CatchPanic::new(service)).oneshot(operation).await.unwrap_or_else(|never: Infallible| match never {})
}

/// As [`close`], past the two services that close a stack off: they are no layers of it.
pub(crate) async fn described<S>(service: S, describe: Describe) -> Description
where
    S: Service<Describe, Response = Description, Error: Into<BoxError>>,
{
    match AssertUnwindSafe(service.oneshot(describe)).catch_unwind().await {
        Ok(Ok(description)) => description,
        Ok(Err(error)) => Description::refused(refusal_of(error.into(), None)),
        Err(panic) => Description::refused(panicked("stack", &*panic)),
    }
}

impl<S: ToolStack> Erased for Closed<S> {
    fn call(&self, call: ToolCall) -> ToolFuture {
        ToolFuture::new(close(self.0.clone(), call))
    }

    fn list(&self, list: ListTools) -> BoxFuture<'static, ToolList> {
        Box::pin(close(self.0.clone(), list))
    }

    fn describe(&self, describe: Describe) -> BoxFuture<'static, Description> {
        Box::pin(described(self.0.clone(), describe))
    }

    fn instance(&self) -> Option<Box<dyn Instance>> {
        Some(instance::of(self.0.clone()))
    }
}

/// A finished stack; see the [module](self).
pub struct Stack {
    shared: Arc<Shared>,
    kept: Kept,
}

struct Shared {
    service: Box<dyn Erased>,
    service_type: &'static str,
    max_depth: u16,
    /// Whether it is a whole stack, which tools may call again, and not a part of one.
    whole: bool,
}

impl Stack {
    /// How deep calls within calls may go, unless [`with_max_depth`](Self::with_max_depth) says otherwise.
    pub const MAX_DEPTH: u16 = 8;

    /// Closes a chain of layers off.
    pub fn new(service: impl ToolStack) -> Self {
        Self::with_max_depth(service, Self::MAX_DEPTH)
    }

    /// Closes a chain of layers off, with this many levels of calls within calls; zero for none.
    ///
    /// Each level takes its part of the thread's stack: between 60 and 125 kB in a build without optimisation, with all of the
    /// recommended layers. A tool that calls itself must come to this end before the thread's stack does, which ends the process.
    pub fn with_max_depth<S: ToolStack>(service: S, max_depth: u16) -> Self {
        Self {
            shared: Arc::new(Shared { service: Box::new(Closed(service)), service_type: type_name::<S>(), max_depth, whole: true }),
            kept: Kept::Fresh,
        }
    }

    /// A part of a stack: tools within that call others do so through the whole, and not through this.
    pub(crate) fn part<S: ToolStack>(service: S) -> Self {
        Self {
            shared: Arc::new(Shared {
                service: Box::new(Closed(service)),
                service_type: type_name::<S>(),
                max_depth: Self::MAX_DEPTH,
                whole: false,
            }),
            kept: Kept::Fresh,
        }
    }

    /// Gives tools their way back. The outermost stack counts.
    fn entered(&self, context: &mut Context) {
        if self.shared.whole && context.reentry::<Shared>().is_none() {
            context.set_reentry(Arc::clone(&self.shared));
        }
    }
}

impl Clone for Stack {
    /// Keeps nothing of what this one does.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), kept: Kept::Fresh }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("service", &self.shared.service_type).field("max_depth", &self.shared.max_depth).finish()
    }
}

/// The response of a [`Stack`] to a call.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture(ToolFuture);

impl Future for ResponseFuture {
    type Output = Result<ToolResponse, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

impl Service<ToolCall> for Stack {
    type Response = ToolResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    /// Ready in any case: a call waits for what is within. Through a clone that is called again, what is within is asked here already.
    fn poll_ready(&mut self, cx: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        self.kept.poll_ready(|| self.shared.service.instance(), cx);
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: ToolCall) -> ResponseFuture {
        self.entered(&mut call.context);
        ResponseFuture(self.kept.call(call, |call| self.shared.service.call(call)))
    }
}

impl Service<ListTools> for Stack {
    type Response = ToolList;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<ToolList, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, list: ListTools) -> Self::Future {
        let list = self.shared.service.list(list);
        Box::pin(async move { Ok(list.await) })
    }
}

impl Service<Describe> for Stack {
    type Response = Description;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Description, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut describe: Describe) -> Self::Future {
        describe.push(Note::new("").between(type_name::<Self>(), self.shared.service_type));
        let description = self.shared.service.describe(describe);
        Box::pin(async move { Ok(description.await) })
    }
}

/// The way for a tool to call other tools: through the stack that its own call came through, with every layer of it.
///
/// A tool function takes it as a parameter. The calls that it makes have the same principal, session, deadline and cancellation, the
/// tool's own call as their parent, and [`Program`](crate::model::Origin::Program) as their origin.
#[derive(Clone)]
pub struct Reentry {
    shared: Arc<Shared>,
    id: CallId,
    context: Context,
}

impl Reentry {
    /// The way back for the tool that is given this call.
    ///
    /// # Errors
    ///
    /// If the call did not come through a [`Stack`].
    pub fn of(call: &ToolCall) -> Result<Self, Refusal> {
        let shared = call.context.reentry::<Shared>().ok_or_else(|| {
            Refusal::internal(format!(
                "the tool `{}` calls other tools, for which its call has to come through `toolstack::Stack`",
                call.name()
            ))
        })?;
        Ok(Self { shared, id: call.id.clone(), context: call.context.clone() })
    }

    /// Calls a tool. Dropping the future cancels the call.
    pub async fn call_tool(&self, name: impl AsRef<str>, arguments: impl Into<Arguments>) -> ToolResponse {
        self.run_call(ToolCall::new(name, arguments)).await
    }

    /// Makes a call. What its context says is replaced by what the tool's own call passes on.
    pub async fn run_call(&self, call: ToolCall) -> ToolResponse {
        let call = call.with_context(self.context.within(&self.id));
        let max = self.shared.max_depth;
        if call.context.depth() > max {
            let message = format!("Calls within calls may go {max} levels deep; this one of {} would go deeper.", call.name());
            return ToolResponse::refused(Refusal::new(RefusalKind::LimitExceeded, message).with_by("stack"));
        }
        self.shared.service.call(call).await
    }

    /// Lists the tools that the calls could be of.
    pub async fn list_tools(&self) -> ToolList {
        self.shared.service.list(ListTools::new().with_context(self.context.within(&self.id))).await
    }
}

impl fmt::Debug for Reentry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reentry").field("id", &self.id).finish_non_exhaustive()
    }
}

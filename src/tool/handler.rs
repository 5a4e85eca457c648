use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use crate::{
    describe::Note,
    model::{ToolCall, ToolName, ToolResponse},
};

/// What answers calls. The functions given to [`tool_fn`](super::tool_fn) and any `Service<ToolCall>` become one; write one by hand
/// for a tool that is neither.
///
/// ```
/// use toolstack::{ToolCall, ToolResponse, model::{ToolName, ToolSpec}, tool::{Handler, Tool, ToolFuture}};
///
/// struct Echo;
///
/// impl Handler for Echo {
///     fn call(&self, call: ToolCall) -> ToolFuture {
///         ToolFuture::ready(ToolResponse::text(call.arguments.as_json().unwrap_or_default()))
///     }
/// }
///
/// let tool = Tool::new(ToolSpec::new(ToolName::new("echo")?), Echo);
/// # let _ = tool; Ok::<(), toolstack::model::NameError>(())
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Answers one call. Nothing should happen before the future is polled, except in a handler that is ready at once.
    fn call(&self, call: ToolCall) -> ToolFuture;

    /// As [`call`](Self::call), but the call stays where the router has it until somebody takes it: a handler that only reads it saves
    /// moving it.
    #[doc(hidden)]
    fn call_in_place(&self, call: &mut ToolCall) -> ToolFuture {
        self.call(call.take())
    }

    /// Whether there are any. A wrapper around a handler passes this on with the layers.
    #[doc(hidden)]
    fn layered(&self) -> bool {
        false
    }

    /// The layers around this tool alone, outermost first; for [`describe`](crate::describe).
    fn layers(&self) -> BoxFuture<'static, Vec<Note>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

impl<H: Handler + ?Sized> Handler for Arc<H> {
    fn call(&self, call: ToolCall) -> ToolFuture {
        (**self).call(call)
    }

    fn call_in_place(&self, call: &mut ToolCall) -> ToolFuture {
        (**self).call_in_place(call)
    }

    fn layered(&self) -> bool {
        (**self).layered()
    }

    fn layers(&self) -> BoxFuture<'static, Vec<Note>> {
        (**self).layers()
    }
}

/// The response of a [`Handler`]: there already, or to be waited for.
#[must_use = "futures do nothing unless polled"]
pub struct ToolFuture(pub(crate) Repr);

pub(crate) enum Repr {
    Ready(Option<ToolResponse>),
    Boxed(BoxFuture<'static, ToolResponse>),
    /// What a nested router answers, which knows the tool by another name than this one, outside. Kept here so that the response of a
    /// router is one of its tools' as it is; it takes no room, since a response is no smaller.
    Within(BoxFuture<'static, ToolResponse>, ToolName),
}

impl ToolFuture {
    /// Waits for `future`. Allocates once.
    pub fn new(future: impl Future<Output = ToolResponse> + Send + 'static) -> Self {
        Self(Repr::Boxed(Box::pin(future)))
    }

    /// A response that is there already.
    pub const fn ready(response: ToolResponse) -> Self {
        Self(Repr::Ready(Some(response)))
    }

    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.0, Repr::Ready(_))
    }
}

impl Future for ToolFuture {
    type Output = ToolResponse;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ToolResponse> {
        match &mut self.0 {
            Repr::Boxed(future) | Repr::Within(future, _) => future.as_mut().poll(cx),
            Repr::Ready(response) => response.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

impl fmt::Debug for ToolFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFuture").field("ready", &self.is_ready()).finish()
    }
}

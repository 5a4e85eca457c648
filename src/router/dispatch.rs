use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::registry::{Flat, Registry, Target};
use crate::{
    error::{Refusal, RefusalKind},
    layer::catch_panic::panicked,
    model::{ToolCall, ToolName, ToolResponse},
    tool::ToolFuture,
};

/// The response of a [`Router`](super::Router) to a call.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture {
    future: ToolFuture,
    /// What the tool is called outside, where a nested router answers, which knows it by another name.
    outside: Option<ToolName>,
}

impl Registry {
    /// Finds the tool and begins its call.
    #[inline]
    pub(super) fn dispatch(&self, mut call: ToolCall) -> ResponseFuture {
        let flat = self.current();
        match flat.routes.get(call.name().as_str()) {
            None => unknown(&flat, call),
            Some(route) if call.judged() != 0 && call.judged() != route.entry.serial() => ResponseFuture::ready(changed(&call)),
            Some(route) if call.permit().is_some_and(|permit| permit.serial() != route.entry.serial() || !permit.holds(&call)) => {
                ResponseFuture::ready(changed_since(&call))
            }
            Some(route) => match &route.target {
                Target::Handler(handler) => {
                    call.discharge();
                    // A tool with layers of its own looks once more, within them.
                    if !handler.layered() {
                        call.use_permit();
                    }
                    ResponseFuture::begun(None, |call| handler.call(call), call)
                }
                Target::Mount(mount, within) => {
                    let outside = call.name().clone();
                    call.set_name(within.clone());
                    ResponseFuture::begun(Some(outside), |call| mount.service.call(call), call)
                }
            },
        }
    }
}

/// A name that no tool has. The router whose names begin so is asked all the same: its layers see the call, and it may have a fallback.
#[cold]
fn unknown(flat: &Flat, mut call: ToolCall) -> ResponseFuture {
    let longest = flat.mounts.iter().filter_map(|mount| Some((mount, mount.within(call.name())?))).min_by_key(|(_, within)| within.len());
    if let Some((mount, within)) = longest {
        // A tool that is in there and not out here has too long a name out here. It is in no list, and so cannot be called.
        if mount.registry.current().routes.contains_key(within) {
            return ResponseFuture::ready(ToolResponse::refused(Refusal::unknown_tool(call.name())));
        }
        // A fallback here comes before one of a router that has no names of its own to speak of.
        if mount.prefix.is_some() || flat.fallback.is_none() {
            let within = within.to_owned();
            let outside = call.name().clone();
            call.rename(within);
            let mount = Arc::clone(mount);
            return ResponseFuture::begun(Some(outside), |call| mount.service.call(call), call);
        }
    }
    match &flat.fallback {
        Some(_) if call.judged() != 0 => ResponseFuture::ready(changed(&call)),
        Some(fallback) => ResponseFuture::begun(None, |call| fallback.call(call), call),
        None => ResponseFuture::ready(ToolResponse::refused(Refusal::unknown_tool(call.name()))),
    }
}

#[cold]
fn changed(call: &ToolCall) -> ToolResponse {
    let message = format!("{} is not the tool that was judged for this call any more. List the tools and call again.", call.name());
    ToolResponse::refused(Refusal::new(RefusalKind::Denied, message).with_by("router"))
}

#[cold]
fn changed_since(call: &ToolCall) -> ToolResponse {
    ToolResponse::refused(crate::model::permit::changed(call.name()))
}

impl ResponseFuture {
    pub(super) const fn ready(response: ToolResponse) -> Self {
        Self { future: ToolFuture::ready(response), outside: None }
    }

    // Not inlined, so that the call is moved once, as a whole.
    #[inline(never)]
    fn begun(outside: Option<ToolName>, begin: impl FnOnce(ToolCall) -> ToolFuture, call: ToolCall) -> Self {
        let future = catch_unwind(AssertUnwindSafe(|| begin(call)))
            .unwrap_or_else(|panic| ToolFuture::ready(ToolResponse::refused(panicked("router", &*panic))));
        Self { future, outside }
    }

    fn poll_boxed(&mut self, cx: &mut Context<'_>) -> Poll<ToolResponse> {
        catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.future).poll(cx))).unwrap_or_else(|panic| {
            // Dropped here and now, so that what it holds is free when the answer is there; and it may panic again.
            let done = ToolFuture::ready(ToolResponse::error(""));
            let broken = std::mem::replace(&mut self.future, done);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
            Poll::Ready(ToolResponse::refused(panicked("router", &*panic)))
        })
    }

    /// For a router around this one, which catches panics itself.
    pub(super) fn into_tool_future(self) -> ToolFuture {
        if self.outside.is_none() {
            return self.future;
        }
        ToolFuture::new(async move { self.await.unwrap_or_else(|never| match never {}) })
    }
}

impl Future for ResponseFuture {
    type Output = Result<ToolResponse, Infallible>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A response that is there already cannot panic any more.
        let response = match self.future.take_ready() {
            Some(response) => response,
            None => match self.poll_boxed(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(response) => response,
            },
        };
        Poll::Ready(Ok(match &self.outside {
            None => response,
            Some(outside) => known_outside(response, outside),
        }))
    }
}

/// A nested router speaks of an unknown tool by the name within; outside, unknown and hidden read the same. What a tool says of another
/// tool, which it called, stays as it is.
fn known_outside(response: ToolResponse, outside: &ToolName) -> ToolResponse {
    let within = |name: &str| outside.strip_suffix(name).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'));
    match response.refusal() {
        Some(refusal) if refusal.is_unknown_tool(within) => ToolResponse::refused(Refusal::unknown_tool(outside)),
        _ => response,
    }
}

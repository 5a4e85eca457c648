use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::registry::{Flat, Target};
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

impl Flat {
    /// Finds the tool and begins its call.
    pub(super) fn dispatch(&self, call: &mut ToolCall) -> ResponseFuture {
        match self.routes.get(call.name().as_str()) {
            None => unknown(self, call),
            Some(route) if call.judged() != 0 && call.judged() != route.entry.serial() => ResponseFuture::ready(changed(call)),
            Some(route) if call.permit().is_some_and(|permit| permit.serial() != route.entry.serial() || !permit.holds(call)) => {
                ResponseFuture::ready(changed_since(call))
            }
            Some(route) => match &route.target {
                Target::Handler(handler) => {
                    call.discharge();
                    // A tool with layers of its own looks once more, within them.
                    if !handler.layered() {
                        call.use_permit();
                    }
                    ResponseFuture::begun(None, || handler.call_in_place(call))
                }
                Target::Mount(mount, within) => {
                    let outside = call.name().clone();
                    call.set_name(within.clone());
                    ResponseFuture::begun(Some(outside), || mount.service.call(call.take()))
                }
            },
        }
    }
}

/// A name that no tool has. The router whose names begin so is asked all the same: its layers see the call, and it may have a fallback.
#[cold]
fn unknown(flat: &Flat, call: &mut ToolCall) -> ResponseFuture {
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
            return ResponseFuture::begun(Some(outside), || mount.service.call(call.take()));
        }
    }
    match &flat.fallback {
        Some(_) if call.judged() != 0 => ResponseFuture::ready(changed(call)),
        Some(fallback) => ResponseFuture::begun(None, || fallback.call_in_place(call)),
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

    #[inline]
    fn begun(outside: Option<ToolName>, begin: impl FnOnce() -> ToolFuture) -> Self {
        match catch_unwind(AssertUnwindSafe(begin)) {
            Ok(future) => Self { future, outside },
            Err(panic) => Self::ready(ToolResponse::refused(panicked("router", &*panic))),
        }
    }

    #[inline(never)]
    fn poll_any(&mut self, cx: &mut Context<'_>) -> Poll<ToolResponse> {
        let response = match self.future.take_ready() {
            Some(response) => response,
            None => ready!(self.poll_boxed(cx)),
        };
        Poll::Ready(match &self.outside {
            None => response,
            Some(outside) => known_outside(response, outside),
        })
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
        // Most often the response is there already. It cannot panic any more, and is moved once.
        if self.outside.is_none()
            && let Some(response) = self.future.take_ready()
        {
            return Poll::Ready(Ok(response));
        }
        self.poll_any(cx).map(Ok)
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

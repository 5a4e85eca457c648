use std::{
    convert::Infallible,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use super::registry::{Flat, Mount, Target};
use crate::{
    error::{Refusal, RefusalKind},
    layer::catch_panic::panicked,
    model::{ToolCall, ToolName, ToolResponse},
    tool::{Repr, ToolFuture},
};

/// The response of a [`Router`](super::Router) to a call.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture(ToolFuture);

impl Flat {
    /// Finds the tool and begins its call.
    #[inline(always)]
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
                    if call.is_watched() && !handler.layered() {
                        call.begin_tool();
                    }
                    ResponseFuture::begun(|| handler.call_in_place(call))
                }
                Target::Mount(mount, within) => nested(mount, within.clone(), call),
            },
        }
    }
}

/// Apart, so that the way of most calls has little to save.
#[inline(never)]
fn nested(mount: &Mount, within: ToolName, call: &mut ToolCall) -> ResponseFuture {
    let outside = call.name().clone();
    call.set_name(within);
    ResponseFuture::begun(|| mount.service.call(call.take())).outside(outside)
}

/// A name that no tool has. The router whose names begin so is asked all the same: its layers see the call, and it may have a fallback.
#[cold]
fn unknown(flat: &Flat, call: &mut ToolCall) -> ResponseFuture {
    let longest = flat.mounts.iter().filter_map(|mount| Some((mount, mount.within(call.name())?))).min_by_key(|(_, within)| within.len());
    if let Some((mount, within)) = longest {
        // A tool that is in there and not out here has too long a name out here. It is in no list, and so cannot be called.
        if mount.registry.current().routes.contains(within) {
            return ResponseFuture::ready(ToolResponse::refused(Refusal::unknown_tool(call.name())));
        }
        // A fallback here comes before one of a router that has no names of its own to speak of.
        if mount.prefix.is_some() || flat.fallback.is_none() {
            let within = within.to_owned();
            let outside = call.name().clone();
            call.rename(within);
            return ResponseFuture::begun(|| mount.service.call(call.take())).outside(outside);
        }
    }
    match &flat.fallback {
        Some(_) if call.judged() != 0 => ResponseFuture::ready(changed(call)),
        Some(fallback) => {
            call.begin();
            ResponseFuture::begun(|| fallback.call_in_place(call))
        }
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
        Self(ToolFuture::ready(response))
    }

    #[inline(always)]
    fn begun(begin: impl FnOnce() -> ToolFuture) -> Self {
        // Written where it stays: what a closure gives back through a catch is moved three times. Nothing is there to be dropped yet.
        let mut future = ToolFuture(Repr::Ready(None));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| mem::forget(mem::replace(&mut future, begin())))) {
            future = ToolFuture::ready(ToolResponse::refused(panicked("router", &*panic)));
        }
        Self(future)
    }

    /// The same, where a nested router answers. What it says is known by the name `outside`.
    fn outside(self, outside: ToolName) -> Self {
        Self(ToolFuture(match self.0.0 {
            Repr::Ready(mut response) => {
                response.iter_mut().for_each(|response| known_outside(response, &outside));
                Repr::Ready(response)
            }
            Repr::Boxed(future) | Repr::Within(future, _) => Repr::Within(future, outside),
        }))
    }

    /// Polls what waits, into `polled`: what a function gives back through a catch is moved three times.
    #[inline(never)]
    fn poll_boxed(&mut self, cx: &mut Context<'_>, polled: &mut Poll<Result<ToolResponse, Infallible>>) {
        let (Repr::Boxed(future) | Repr::Within(future, _)) = &mut self.0.0 else { return };
        let poll = || mem::forget(mem::replace(polled, future.as_mut().poll(cx).map(Ok)));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(poll)) {
            // Dropped here and now, so that what it holds is free when the answer is there; and it may panic again.
            let broken = mem::replace(&mut self.0.0, Repr::Ready(None));
            let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
            *polled = Poll::Ready(Ok(ToolResponse::refused(panicked("router", &*panic))));
        } else if let (Repr::Within(_, outside), Poll::Ready(Ok(response))) = (&self.0.0, polled) {
            known_outside(response, outside);
        }
    }

    /// For a router around this one, which catches panics itself.
    pub(super) fn into_tool_future(self) -> ToolFuture {
        match self.0 {
            ToolFuture(Repr::Within(..)) => ToolFuture::new(async move { self.await.unwrap_or_else(|never| match never {}) }),
            future => future,
        }
    }
}

impl Future for ResponseFuture {
    type Output = Result<ToolResponse, Infallible>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0.0 {
            // Most often the response is there already. It cannot panic any more, and is moved once.
            Repr::Ready(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            _ => {
                let mut polled = Poll::Pending;
                self.poll_boxed(cx, &mut polled);
                polled
            }
        }
    }
}

/// A nested router speaks of an unknown tool by the name within; outside, unknown and hidden read the same. What a tool says of another
/// tool, which it called, stays as it is.
fn known_outside(response: &mut ToolResponse, outside: &ToolName) {
    let within = |name: &str| outside.strip_suffix(name).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'));
    if response.refusal().is_some_and(|refusal| refusal.is_unknown_tool(within)) {
        *response = ToolResponse::refused(Refusal::unknown_tool(outside));
    }
}

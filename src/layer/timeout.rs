//! Bounds how long an operation takes, the wait for readiness included, and answers with a refusal.
//!
//! A tool that hangs holds up a turn of the model, and whatever permits it has. Three bounds act together, and the nearest counts:
//!
//! - the **total** of this layer;
//! - the **deadline** in the [`Context`](crate::model::Context), which callers further out set, and which this layer brings forward for
//!   everything within, calls that a tool makes included;
//! - an **idle** limit, which every report of [progress](crate::model::Progress) puts off. The total is not put off by anything.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{RefusalKind, Router, StackExt, layer::TimeoutLayer, tool::{sync_tool_fn, tool_fn}};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new(Duration::from_secs(30)).idle(Duration::from_secs(10)))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("quick", || "done"))
//!         .tool(tool_fn("silent", || std::future::pending::<()>())));
//!
//! assert!(stack.call_tool("quick", json!({})).await.is_completed());
//!
//! let began = tokio::time::Instant::now();
//! let answer = stack.call_tool("silent", json!({})).await;
//! assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::Timeout);
//! assert_eq!(began.elapsed(), Duration::from_secs(10));
//! # }
//! ```
//!
//! # Order
//!
//! Inside whatever waits for a person, so that their time is not the tool's; outside limits, whose queue it then bounds; inside a retry,
//! for a bound of each attempt.
//!
//! # Refusals
//!
//! [`Timeout`](crate::RefusalKind::Timeout). The message says after how long, and how far the last progress was. What is within is
//! dropped before the answer is given, so that its permits are free again. An operation whose deadline has passed already is not begun.
//!
//! # Cancellation
//!
//! Dropping the future drops what is within, and no more.
//!
//! # Compared with tower's `timeout`
//!
//! Tower's fails with an error where this one answers, starts its clock only once the service within is ready, and knows no progress. It
//! works in a stack all the same.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::util::Oneshot;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    model::{Progress, ProgressUpdate},
    operation::{Operation, View},
};

/// Bounds how long an operation takes; see the [module](self).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Copy, Debug)]
pub struct TimeoutLayer {
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    total: Option<Duration>,
    idle: Option<Duration>,
}

impl TimeoutLayer {
    /// Bounds the whole operation.
    pub const fn new(total: Duration) -> Self {
        Self { limits: Limits { total: Some(total), idle: None } }
    }

    /// Keeps only the deadline that the context brings.
    pub const fn deadline() -> Self {
        Self { limits: Limits { total: None, idle: None } }
    }

    /// Bounds the time without progress as well.
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.limits.idle = Some(idle);
        self
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner, limits: self.limits, ready: false }
    }
}

/// A service that is bounded in time.
pub struct Timeout<S> {
    inner: S,
    limits: Limits,
    /// Whether `inner` was polled and is ready. This service is ready in any case, so that the wait counts.
    ready: bool,
}

impl<S> Timeout<S> {
    crate::macros::accessors!();
}

impl<S: Clone> Clone for Timeout<S> {
    /// A clone is not ready, whatever this one is.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), limits: self.limits, ready: false }
    }
}

impl<S: fmt::Debug> fmt::Debug for Timeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("limits", &self.limits).field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, Op> Service<Op> for Timeout<S>
where
    Op: Operation,
    S: Service<Op, Response = Op::Response> + Clone,
{
    type Response = Op::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S, Op>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        match self.inner.poll_ready(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            ready => self.ready = ready.is_ready(),
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        if let View::Describe(describe) = request.view() {
            describe.note::<Self, S>(self.limits.note());
        }
        let began = Instant::now();
        let context = request.context_mut();
        if let Some(end) = self.limits.total.and_then(|total| began.checked_add(total)) {
            context.shorten_deadline(end);
        }
        let deadline = context.deadline();
        let clock = Clock { began, deadline, idle: self.limits.idle, activity: None };
        if deadline.is_some_and(|deadline| deadline <= began) {
            let refusal = refusal("The time for this call was over before it began.".to_owned());
            return ResponseFuture { state: State::Done { response: Some(Op::refuse(refusal)) }, sleep: None, clock };
        }
        let activity = (self.limits.idle.is_some() || context.progress().is_listening()).then(|| {
            let activity = Arc::new(Activity::new(began, context.progress().clone()));
            *context = std::mem::take(context).with_progress(activity.listener());
            activity
        });

        let state = if std::mem::take(&mut self.ready) {
            State::Called { future: self.inner.call(request) }
        } else {
            // The instance that was polled keeps its place in a queue within; a clone, which was not polled, takes its place here.
            let fresh = self.inner.clone();
            let polled = std::mem::replace(&mut self.inner, fresh);
            State::Waiting { oneshot: Oneshot::new(polled, request) }
        };
        ResponseFuture { state, sleep: None, clock: Clock { activity, ..clock } }
    }
}

impl Limits {
    fn note(self) -> Note {
        let earliest = self.total.into_iter().chain(self.idle).min();
        let mut note = Note::new("timeout").duty(Duty::Times).ready_at_once(true).ends(self.total, earliest);
        if let Some(total) = self.total {
            note = note.setting("total", format_args!("{total:?}"));
        }
        if let Some(idle) = self.idle {
            note = note.setting("idle", format_args!("{idle:?}"));
        }
        note
    }
}

fn refusal(message: String) -> Refusal {
    Refusal::new(RefusalKind::Timeout, message).with_by("timeout")
}

/// When the last sign of life was, and what it said.
struct Activity {
    last: Mutex<(Instant, Option<ProgressUpdate>)>,
    outward: Progress,
}

impl Activity {
    fn new(began: Instant, outward: Progress) -> Self {
        Self { last: Mutex::new((began, None)), outward }
    }

    fn listener(self: &Arc<Self>) -> Progress {
        let this = Arc::clone(self);
        Progress::new(move |update| {
            *this.last.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), Some(update.clone()));
            this.outward.report(update);
        })
    }

    fn last(&self) -> (Instant, Option<ProgressUpdate>) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Clone)]
struct Clock {
    began: Instant,
    deadline: Option<Instant>,
    idle: Option<Duration>,
    activity: Option<Arc<Activity>>,
}

impl Clock {
    /// When to look next; `None` for never.
    fn next(&self) -> Option<Instant> {
        let idle = self.idle.and_then(|idle| {
            let last = self.activity.as_ref().map_or(self.began, |activity| activity.last().0);
            last.checked_add(idle)
        });
        match (self.deadline, idle) {
            (Some(deadline), Some(idle)) => Some(deadline.min(idle)),
            (deadline, idle) => deadline.or(idle),
        }
    }

    fn elapsed(&self) -> Refusal {
        let idle = self.deadline.is_none_or(|deadline| Instant::now() < deadline);
        let mut message = match self.idle {
            Some(limit) if idle => format!("The call made no progress for {limit:?} and was stopped"),
            _ => {
                // To the millisecond: nobody reads on.
                let took = Duration::from_millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
                format!("The call did not finish within {took:?} and was stopped")
            }
        };
        message.push_str("; what it began may be half done.");
        if let Some(update) = self.activity.as_ref().and_then(|activity| activity.last().1) {
            message.push_str(&match update.total {
                Some(total) => format!(" Its last progress was {} of {total}.", update.progress),
                None => format!(" Its last progress was {}.", update.progress),
            });
        }
        refusal(message)
    }
}

pin_project! {
    /// The response of [`Timeout`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S: Service<Op>, Op: Operation> {
        #[pin]
        state: State<S, Op>,
        // Made when the service within is first found pending: most calls need none.
        #[pin]
        sleep: Option<Sleep>,
        clock: Clock,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S: Service<Op>, Op: Operation> {
        Called { #[pin] future: S::Future },
        Done { response: Option<Op::Response> },
        Waiting { #[pin] oneshot: Oneshot<S, Op> },
    }
}

impl<S, Op> Future for ResponseFuture<S, Op>
where
    Op: Operation,
    S: Service<Op, Response = Op::Response>,
{
    type Output = Result<Op::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // The work comes before the clock: a result that is there at the last moment counts.
        let polled = match this.state.as_mut().project() {
            StateProj::Called { future } => future.poll(cx),
            StateProj::Waiting { oneshot } => oneshot.poll(cx),
            StateProj::Done { response } => return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
        };
        if polled.is_ready() {
            return polled;
        }
        while let Some(next) = this.clock.next() {
            match this.sleep.as_mut().as_pin_mut() {
                None => this.sleep.set(Some(sleep_until(next))),
                Some(sleep) => {
                    if sleep.as_ref().deadline() != next {
                        // Put off by progress, since it was set.
                        sleep.reset(next);
                        continue;
                    }
                    if sleep.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if this.clock.next() == Some(next) {
                        let refusal = this.clock.elapsed();
                        // Dropped before the answer is given, so that what it holds is free by then.
                        this.state.set(State::Done { response: None });
                        return Poll::Ready(Ok(Op::refuse(refusal)));
                    }
                }
            }
        }
        Poll::Pending
    }
}

impl<S: Service<Op>, Op: Operation> fmt::Debug for ResponseFuture<S, Op> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

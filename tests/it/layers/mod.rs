//! Each layer by itself: what passes, what is refused, an error within, what is not ready, and a caller that goes away.

mod calls;
mod catch_error;
mod catch_panic;
mod closures;
mod from_fn;
mod named;
mod timeout;
mod visibility;

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use toolstack::{
    Refusal, RefusalKind, Router, ToolCall, ToolResponse,
    testing::{Probe, Strict},
};
use tower::{Service, ServiceExt};

/// A strict service around one probe of the name `probe`.
fn strict(capacity: Option<usize>) -> (Strict, Probe) {
    let probe = Probe::new();
    let router = Router::new().tool(probe.tool("probe"));
    (capacity.map_or_else(|| Strict::new(router.clone()), |capacity| Strict::with_capacity(router.clone(), capacity)), probe)
}

/// The service, ready for a call.
async fn ready<S: Service<ToolCall, Error: std::fmt::Debug>>(service: &mut S) -> &mut S {
    service.ready().await.unwrap()
}

/// Takes one permit of `strict`, until it is dropped.
async fn hold(strict: &Strict) -> Strict {
    let mut holder = strict.clone();
    ready(&mut holder).await;
    holder
}

fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(Refusal::kind)
}

/// Polls once, without a waker.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(futures_util::task::noop_waker_ref()))
}

/// Lets the other tasks run.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

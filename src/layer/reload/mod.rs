//! Swaps a layer while calls are in flight.
//!
//! Rules change while a stack runs, and a stack is built once. [`reload`] makes of a layer one that stands in the stack for good, and a
//! [handle](ReloadHandle) that puts another of the same type in its place: a policy with other rules, a timeout with another bound. Layers of
//! different types become the same type as an [`AnyLayer`].
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Refusal, RefusalKind, Router, StackExt, layer::{RequireFieldsLayer, reload}, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let (rules, handle) = reload(RequireFieldsLayer::present(["reason"]));
//! let stack = ServiceBuilder::new().layer(rules).service(Router::new().tool(sync_tool_fn("reset", || "done")));
//!
//! assert_eq!(stack.call_tool("reset", json!({})).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
//! handle.swap(RequireFieldsLayer::present(["ticket"]));
//! assert!(stack.call_tool("reset", json!({ "ticket": 7 })).await.is_completed());
//! # }
//! ```
//!
//! # What a swap does to calls
//!
//! A call that begins after [`swap`](ReloadHandle::swap) returned is the new layer's, whatever was polled ready before. One that began
//! earlier finishes under the old layer, which lives on as long as such calls do. With
//! [`judge_again`](ReloadLayer::judge_again), one that the old layer lets through after the swap, for instance because a person took a
//! while to approve, does not go inward: it starts again under the new layer, as it was when it came. What is further in then runs once, and
//! only if the new layer agrees. What went inward before the swap finishes in either case.
//!
//! A swap builds the new layer's service once for each stack, at the first request after it, so limits within it are shared by all clones of
//! the stack. What the old layer counted or remembered is gone, unless the new one shares it. If building it panics, so does that
//! request, and the next one tries again: the old layer does not come back.
//!
//! # Order
//!
//! In the place of the layer that it swaps. [`describe`](crate::StackExt::describe) and [`lint`](crate::StackExt::lint) show the one that is there at
//! the moment.
//!
//! # Refusals
//!
//! None of its own.
//!
//! # Cancellation
//!
//! Dropping the future drops what is within, and no more.

mod any;
mod entered;
mod service;

use std::{
    any::type_name,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use tower_layer::Layer;

use self::service::Slot;
pub use self::{
    any::AnyLayer,
    entered::{Entered, EnteredFuture},
    service::{Reload, ResponseFuture},
};

/// A layer that can be swapped, and the handle that does it. See the [module](self).
pub fn reload<L>(layer: L) -> (ReloadLayer<L>, ReloadHandle<L>) {
    let first = Generation::new(layer);
    let serial = Arc::new(AtomicU64::new(first.serial));
    let current = Arc::new(Current { layer: ArcSwap::from_pointee(first), serial, swapping: Mutex::new(()) });
    (ReloadLayer { current: Arc::clone(&current), again: false }, ReloadHandle { current })
}

/// A layer that a [handle](ReloadHandle) can swap.
#[must_use = "a layer does nothing until it wraps a service"]
pub struct ReloadLayer<L> {
    current: Arc<Current<L>>,
    again: bool,
}

/// Swaps the layer of a [`ReloadLayer`], in every stack that it is part of.
pub struct ReloadHandle<L> {
    current: Arc<Current<L>>,
}

struct Current<L> {
    layer: ArcSwap<Generation<L>>,
    /// The serial of `layer`, for those that do not know its type.
    serial: Arc<AtomicU64>,
    /// Held by whoever swaps, so that the two above are of one mind.
    swapping: Mutex<()>,
}

struct Generation<L> {
    serial: u64,
    layer: L,
}

impl<L> Generation<L> {
    fn new(layer: L) -> Self {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        Self { serial: SERIALS.fetch_add(1, Ordering::Relaxed), layer }
    }
}

impl<L> ReloadLayer<L> {
    /// Has calls that the old layer lets through after a swap start again under the new one.
    pub fn judge_again(mut self) -> Self {
        self.again = true;
        self
    }
}

impl<L> ReloadHandle<L> {
    /// Puts this layer in the place of the one that is there.
    pub fn swap(&self, layer: L) {
        let next = Arc::new(Generation::new(layer));
        let _alone = self.current.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let serial = next.serial;
        self.current.layer.store(next);
        self.current.serial.store(serial, Ordering::Release);
    }
}

impl<S, L> Layer<S> for ReloadLayer<L>
where
    S: Clone,
    L: Layer<Entered<S>>,
    L::Service: Clone,
{
    type Service = Reload<S, L>;

    fn layer(&self, inner: S) -> Reload<S, L> {
        Reload::new(Arc::new(Slot::new(Arc::clone(&self.current), inner, self.again)))
    }
}

impl<L> Clone for ReloadLayer<L> {
    fn clone(&self) -> Self {
        Self { current: Arc::clone(&self.current), again: self.again }
    }
}

impl<L> Clone for ReloadHandle<L> {
    fn clone(&self) -> Self {
        Self { current: Arc::clone(&self.current) }
    }
}

impl<L> fmt::Debug for ReloadLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadLayer").field("layer", &type_name::<L>()).field("again", &self.again).finish()
    }
}

impl<L> fmt::Debug for ReloadHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadHandle").field("layer", &type_name::<L>()).finish()
    }
}

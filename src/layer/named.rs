//! Gives a layer of another crate a name and settings for [`describe`](crate::describe).
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use tower::{ServiceBuilder, timeout::TimeoutLayer};
//! use toolstack::{Router, StackExt, layer::named};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(named("upstream_timeout", TimeoutLayer::new(Duration::from_secs(5))).setting("after", "5s"))
//!     .service(Router::new());
//!
//! assert_eq!(stack.describe().await.layers()[0].to_string(), "upstream_timeout (after: 5s)");
//! # }
//! ```
//!
//! # Order
//!
//! That of the layer within. It costs nothing.

use std::{
    any::type_name,
    borrow::Cow,
    fmt,
    task::{Context, Poll},
};

use tower_layer::Layer;
use tower_service::Service;

use crate::{
    describe::{Duty, Note, layers_between},
    operation::{Operation, View},
};

/// Puts `layer` under a name.
pub fn named<L>(name: impl Into<Cow<'static, str>>, layer: L) -> NamedLayer<L> {
    NamedLayer { note: Note::foreign(name), layer }
}

/// Puts a layer under a name; see [`named`].
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Debug)]
pub struct NamedLayer<L> {
    note: Note,
    layer: L,
}

impl<L> NamedLayer<L> {
    /// Adds a setting to show. No secret belongs here.
    pub fn setting(mut self, key: impl Into<Cow<'static, str>>, value: impl ToString) -> Self {
        self.note = self.note.setting(key, value);
        self
    }

    /// Adds what the layer does to calls, for a layer that is not tower's own, so that `lint` can judge its place.
    pub fn duty(mut self, duty: Duty) -> Self {
        self.note = self.note.duty(duty);
        self
    }
}

impl<S, L: Layer<S>> Layer<S> for NamedLayer<L> {
    type Service = Named<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        let layers = foreign_note::<L::Service, S>();
        let passes = !layers.is_empty() && layers.iter().all(|layer| layer.is_ready_at_once() == Some(false));
        let duties = layers.iter().flat_map(Note::duties);
        let note = duties.fold(self.note.clone(), |note, duty| note.duty(*duty));
        let note = if passes { note.ready_at_once(false) } else { note };
        Named { inner: self.layer.layer(inner), note: note.labelling(layers.len()) }
    }
}

/// The layers of other crates that `Outer` puts around `Inner`, as far as the types tell.
pub(super) fn foreign_note<Outer, Inner>() -> Vec<Note> {
    layers_between(type_name::<Outer>(), type_name::<Inner>())
}

/// A service under a name.
#[derive(Clone)]
pub struct Named<S> {
    inner: S,
    note: Note,
}

impl<S> Named<S> {
    crate::macros::accessors!();
}

impl<S, Op> Service<Op> for Named<S>
where
    Op: Operation,
    S: Service<Op>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Op) -> S::Future {
        if let View::Describe(describe) = request.view() {
            describe.note::<Self, S>(self.note.clone());
        }
        self.inner.call(request)
    }
}

impl<S: fmt::Debug> fmt::Debug for Named<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("name", &self.note.name()).field("inner", &self.inner).finish()
    }
}

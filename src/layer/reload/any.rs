use std::{any::type_name, fmt, sync::Arc};

use tower_layer::Layer;

use crate::stack::{Stack, ToolStack};

/// A layer of any type around an `S`, so that layers of different types can take each other's place.
///
/// The service that it makes is erased: a call costs a box, errors from within become refusals as a [`Stack`]'s do, and it is ready at
/// once and drives readiness inside the call.
///
/// ```
/// use std::time::Duration;
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{
///     RefusalKind, Router, StackExt,
///     layer::{RequireFieldsLayer, TimeoutLayer, reload::{AnyLayer, reload}}, tool::sync_tool_fn,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (layer, handle) = reload(AnyLayer::new(TimeoutLayer::new(Duration::from_secs(1))));
/// let stack = ServiceBuilder::new().layer(layer).service(Router::new().tool(sync_tool_fn("ping", || "pong")));
/// assert!(stack.call_tool("ping", json!({})).await.is_completed());
///
/// handle.swap(AnyLayer::new(RequireFieldsLayer::present(["id"])));
/// assert_eq!(stack.call_tool("ping", json!({})).await.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
/// # }
/// ```
#[must_use = "a layer does nothing until it wraps a service"]
pub struct AnyLayer<S> {
    make: Arc<dyn Fn(S) -> Stack + Send + Sync>,
    name: &'static str,
}

impl<S> AnyLayer<S> {
    /// This layer.
    pub fn new<L>(layer: L) -> Self
    where
        L: Layer<S, Service: ToolStack> + Send + Sync + 'static,
    {
        Self { make: Arc::new(move |inner| Stack::part(layer.layer(inner))), name: type_name::<L>() }
    }
}

impl<S> Layer<S> for AnyLayer<S> {
    type Service = Stack;

    fn layer(&self, inner: S) -> Stack {
        (self.make)(inner)
    }
}

impl<S> Clone for AnyLayer<S> {
    fn clone(&self) -> Self {
        Self { make: Arc::clone(&self.make), name: self.name }
    }
}

impl<S> fmt::Debug for AnyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyLayer").field(&self.name).finish()
    }
}

//! Decides which tools there are, for this caller, by one predicate for lists and calls.
//!
//! A tool that is not in the list cannot be called either, and a call of it is answered exactly as a call of a tool that does not exist.
//! With two separate mechanisms the two come apart sooner or later; here they cannot.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Router, StackExt, ToolCall, layer::VisibilityLayer,
//!     model::{Context, Principal}, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(VisibilityLayer::new(|tool, context| !tool.has_tag("admin") || context.principal().has_scope("admin")))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("ping", || "pong"))
//!         .tool(sync_tool_fn("reset", || "done").tag("admin")));
//!
//! assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping"]);
//! assert_eq!(stack.call_tool("reset", json!({})).await.as_text().as_deref(), Some("Unknown tool: reset"));
//!
//! let root = Context::new().with_principal(Principal::new("root").scope("admin"));
//! assert!(stack.run_call(ToolCall::new("reset", json!({})).with_context(root)).await.is_completed());
//! # }
//! ```
//!
//! # Order
//!
//! Inside what finds out who asks, outside everything that would treat a hidden tool otherwise than one that does not exist: limits,
//! permission, validation.
//!
//! # Refusals
//!
//! [`UnknownTool`](crate::RefusalKind::UnknownTool), the same bytes as the router's. A tool that only a
//! [fallback](crate::Router::fallback) answers is in no list, and so is unknown here.
//!
//! # Cancellation
//!
//! Holds nothing.

use std::{any::type_name, fmt};

use tower_layer::Layer;

use super::around::{Ending, Policed, Policy, PolicyLayer, Site, Step};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    model::{Context, ToolSpec},
    operation::{Reply, View},
    router::Catalog,
};

/// Hides tools; see the [module](self).
#[must_use = "a layer does nothing until it wraps a service"]
pub struct VisibilityLayer<F>(PolicyLayer<Visible<F>>);

/// A service that hides tools.
pub type Visibility<S, F> = Policed<S, Visible<F>>;

impl<F> VisibilityLayer<F>
where
    F: Fn(&ToolSpec, &Context) -> bool + Send + Sync + 'static,
{
    /// Shows the tools for which `visible` says yes. It is asked for each call, and for each tool of each list: keep it quick.
    pub fn new(visible: F) -> Self {
        Self(PolicyLayer::new(Visible::new(visible)))
    }
}

impl<S, F> Layer<S> for VisibilityLayer<F>
where
    F: Fn(&ToolSpec, &Context) -> bool + Send + Sync + 'static,
{
    type Service = Visibility<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}

impl<F> Clone for VisibilityLayer<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F> fmt::Debug for VisibilityLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VisibilityLayer").field(&type_name::<F>()).finish()
    }
}

/// The policy of a [`VisibilityLayer`].
pub struct Visible<F> {
    visible: F,
}

impl<F> Visible<F> {
    pub(crate) const fn new(visible: F) -> Self {
        Self { visible }
    }
}

impl<F> Policy for Visible<F>
where
    F: Fn(&ToolSpec, &Context) -> bool + Send + Sync + 'static,
{
    /// Who asked for a list, and which tools there are to call.
    type State = (Context, Catalog);

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        Some(Note::new("visibility").duty(Duty::Hides))
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Self::State> {
        match (request, site.catalog) {
            (View::Call(call), _) if !site.tool.is_some_and(|tool| (self.visible)(tool.spec(), &call.context)) => {
                Step::refuse(Refusal::unknown_tool(call.name()))
            }
            (View::List(list), Some(catalog)) => Step::Continue((list.context.clone(), catalog.clone())),
            // Not without knowing what to hide.
            (View::List(_), None) => Step::refuse(Refusal::internal("there is no catalog at this place")),
            _ => Step::Pass,
        }
    }

    fn after(&self, (context, catalog): Self::State, ending: Ending<'_>) {
        if let Ending::Reply(Reply::List(list)) = ending {
            // What is asked about is the tool as it would be called: a layer within may have changed what the list shows of it.
            list.retain(|tool| catalog.get(&tool.name).is_some_and(|tool| (self.visible)(tool.spec(), &context)));
        }
    }
}

impl<F> fmt::Debug for Visible<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Visible").field(&type_name::<F>()).finish()
    }
}

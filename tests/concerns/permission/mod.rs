//! The permission layer: what rules say, who is asked, what an answer is good for, and that what was allowed is what runs.

mod asking;
mod cedar;
mod edits;
mod grants;
mod mended;
mod order;
mod permits;
mod reentry;
mod rules;
mod stores;
mod terminal;

use serde_json::Value;
use toolstack::{
    RefusalKind, Router, ToolCall, ToolResponse,
    layer::permission::{Effect, PermissionLayer, Rules},
    model::{Context, Principal},
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};

pub(crate) fn rules(json: &Value) -> Rules {
    Rules::from_json(&serde_json::json!({ "rules": json }).to_string()).unwrap()
}

pub(crate) fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(|refusal| refusal.kind())
}

pub(crate) fn text(response: &ToolResponse) -> String {
    response.as_text().unwrap_or_default().into_owned()
}

/// A call by somebody with a name.
pub(crate) fn by(subject: &str, call: ToolCall) -> ToolCall {
    call.with_context(Context::new().with_principal(Principal::new(subject)))
}

/// A probe behind the layer, under each of these names.
pub(crate) fn guarded(layer: PermissionLayer, probe: &Probe, names: &[&str]) -> <PermissionLayer as Layer<Router>>::Service {
    let tools = names.iter().fold(Router::new(), |tools, name| tools.tool(probe.tool(name)));
    ServiceBuilder::new().layer(layer).service(tools)
}

/// A layer that denies what no rule is about.
pub(crate) fn strict(json: &Value) -> PermissionLayer {
    PermissionLayer::new(rules(json), Effect::Deny)
}

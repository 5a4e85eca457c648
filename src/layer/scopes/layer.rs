use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{NAME, ScopeRules, rules::Need};
use crate::{
    describe::{Duty, Note},
    error::{Challenge, Refusal, RefusalKind},
    layer::{
        around::{Ending, Policed, Policy, PolicyLayer, Site, Step},
        per_tool::PerTool,
    },
    model::{Context, Principal, ToolName},
    operation::{Reply, View},
    router::Catalog,
    tool::ToolEntry,
};

/// Requires scopes; see the [module](super).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct ScopesLayer(ScopeRules);

/// A service that requires scopes.
pub type ScopesService<S> = Policed<S, Scopes>;

/// The policy of a [`ScopesLayer`].
pub struct Scopes {
    rules: ScopeRules,
    needs: PerTool<Need>,
}

/// How many tools it is worked out for what they need.
const MAX_TOOLS: usize = 4096;

impl ScopesLayer {
    /// Requires what these rules say.
    pub const fn new(rules: ScopeRules) -> Self {
        Self(rules)
    }

    /// The policy, for a stack that may leave it out.
    pub(crate) fn into_policy(self) -> Scopes {
        Scopes { rules: self.0, needs: PerTool::new(MAX_TOOLS) }
    }
}

impl<S> Layer<S> for ScopesLayer {
    type Service = ScopesService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

impl Scopes {
    fn need(&self, name: &str, tool: Option<&ToolEntry>) -> Arc<Need> {
        match tool {
            Some(tool) => self.needs.get(tool, || self.rules.need(name, Some(tool))),
            None => Arc::new(self.rules.need(name, None)),
        }
    }

    fn may(&self, name: &str, tool: Option<&ToolEntry>, principal: &Principal) -> Result<(), Refusal> {
        match &*self.need(name, tool) {
            Need::Forbidden => Err(Refusal::new(RefusalKind::Denied, "The caller may not do this.").with_by(NAME)),
            Need::Scopes(needed) => {
                let missing = self.rules.missing(principal, needed);
                if missing.is_empty() {
                    return Ok(());
                }
                Err(refusal(principal, &missing, needed.iter().cloned().collect()))
            }
        }
    }

    fn hides(&self, name: &ToolName, tool: Option<&ToolEntry>, principal: &Principal) -> bool {
        match &*self.need(name, tool) {
            Need::Forbidden => true,
            Need::Scopes(needed) => !self.rules.missing(principal, needed).is_empty(),
        }
    }
}

/// All that is missing is named at once, and all that is needed goes into one challenge.
#[cold]
fn refusal(principal: &Principal, missing: &[&str], needed: Vec<String>) -> Refusal {
    let refusal = if principal.is_anonymous() {
        // Another token does not help who has none.
        Refusal::new(RefusalKind::Unauthenticated, "Nobody vouches for this call. It needs a valid sign-in.")
            .with_challenge(Challenge::bearer(None, None, needed))
    } else {
        let message = format!("The caller lacks a scope; needed: {}.", missing.join(", "));
        Refusal::new(RefusalKind::InsufficientScope, message).with_challenge(Challenge::Scopes(needed))
    };
    refusal.with_by(NAME)
}

impl Policy for Scopes {
    /// Who asked for a list, and which tools there are.
    type State = (Context, Catalog);

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let mut note = Note::new(NAME)
            .duty(Duty::DecidesByTool)
            .duty(Duty::GoesByCaller)
            .setting("rules", self.rules.require.len() + self.rules.forbid.len())
            .setting("lists", if self.rules.hide { "hidden" } else { "shown" });
        for rule in &self.rules.require {
            let scopes: Vec<&str> = rule.scopes.iter().map(String::as_str).collect();
            note = note.selects(format!("require {}", scopes.join(" ")), rule.tools.clone());
        }
        for tools in &self.rules.forbid {
            note = note.selects("forbid", tools.clone());
        }
        Some(note)
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Self::State> {
        match (request, site.catalog) {
            (View::Call(call), _) => self.may(call.name(), site.tool, call.context.principal()).into(),
            (View::List(_), _) if !self.rules.hide => Step::Pass,
            (View::List(list), Some(catalog)) => Step::Continue((list.context.clone(), catalog.clone())),
            // Not without knowing what to hide.
            (View::List(_), None) => Step::refuse(Refusal::internal("there is no catalog at this place").with_by(NAME)),
            _ => Step::Pass,
        }
    }

    fn after(&self, (context, catalog): Self::State, ending: Ending<'_>) {
        if let Ending::Reply(Reply::List(list)) = ending {
            list.retain(|tool| !self.hides(&tool.name, catalog.get(&tool.name).as_deref(), context.principal()));
        }
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scopes").field(&self.rules).finish()
    }
}

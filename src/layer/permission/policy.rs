use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::BoxFuture;
use tokio::time::timeout_at;

use super::{
    Approver, Decided, DecidedBy, Effect, PolicyEngine, Reentry,
    judge::{Judge, Verdict},
    refusals,
};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    layer::{Ending, Policy, Site, Step},
    model::{Context, ToolCall},
    operation::{Reply, View},
    router::Catalog,
    store::GrantStore,
    tool::ToolEntry,
};

/// What happens to a call that waits for an answer when the rules are swapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnSwap {
    /// It is judged again by the new rules once it is answered: what they deny does not run.
    #[default]
    JudgeAgain,
    /// It is finished under the rules that it was asked under.
    Finish,
}

/// The policy of a [`PermissionLayer`](super::PermissionLayer).
#[derive(Clone)]
pub struct Permission {
    pub(super) judge: Arc<ArcSwap<Judge>>,
    pub(super) approver: Arc<ArcSwapOption<Box<dyn Approver>>>,
    pub(super) reentry: Option<Arc<Reentry>>,
    pub(super) engine: Option<Arc<dyn PolicyEngine>>,
    pub(super) grants: Arc<dyn GrantStore>,
    pub(super) observer: Option<Arc<dyn Fn(&Decided<'_>) + Send + Sync>>,
    pub(super) timeout: Duration,
    pub(super) on_swap: OnSwap,
    pub(super) enforced: bool,
}

/// Who asked for a list, and what the tools in it are.
pub struct Listed {
    context: Context,
    catalog: Option<Catalog>,
}

impl Permission {
    fn may_ask(&self) -> bool {
        self.engine.is_some() || self.judge.load().may(Effect::Ask)
    }

    pub(super) fn report(&self, call: &ToolCall, tool: &ToolEntry, effect: Effect, by: DecidedBy<'_>) {
        if !self.enforced && effect > Effect::Allow {
            tracing::info!(tool = %call.name(), %effect, %by, "permission: not enforced");
        }
        if let Some(trail) = call.context.trail() {
            trail.decide(|| by.noted(effect, self.enforced));
        }
        if let Some(observer) = &self.observer {
            let decided = Decided { call, tool, effect, by, enforced: self.enforced };
            if catch_unwind(AssertUnwindSafe(|| observer(&decided))).is_err() {
                tracing::error!(tool = %call.name(), "permission: the observer panicked");
            }
        }
    }

    pub(super) fn report_verdict(&self, judge: &Judge, verdict: Verdict, call: &ToolCall, tool: &ToolEntry) {
        let by = judge.rule(verdict).map_or(DecidedBy::Unmatched, |rule| DecidedBy::Rule(&rule.id));
        self.report(call, tool, verdict.effect, by);
    }

    /// Decides what can be decided without waiting.
    #[inline]
    fn quick(&self, call: &mut ToolCall, tool: &ToolEntry) -> Step<Listed> {
        if self.engine.is_some() || self.reentry.as_ref().is_some_and(|reentry| reentry.id_of(call).is_some()) {
            return Step::Wait;
        }
        let judge = self.judge.load();
        let verdict = judge.judge(tool, call);
        if !self.enforced {
            self.report_verdict(&judge, verdict, call, tool);
            return Step::Pass;
        }
        match verdict.effect {
            Effect::Ask => Step::Wait,
            Effect::Allow => {
                self.report_verdict(&judge, verdict, call, tool);
                call.allow(tool.serial());
                Step::Pass
            }
            Effect::Deny => {
                self.report_verdict(&judge, verdict, call, tool);
                Step::refuse(refusals::denied(call.name(), judge.rule(verdict)))
            }
        }
    }
}

impl Policy for Permission {
    type State = Listed;

    const TOOL: bool = true;
    const WAITS: bool = true;

    /// Who comes back with an answer does not wait here, and who has nobody to ask does not either.
    fn waits(&self) -> bool {
        self.engine.is_some() || (self.approver.load().is_some() && self.may_ask())
    }

    fn note(&self) -> Option<Note> {
        let judge = self.judge.load();
        let in_place = self.approver.load().is_some();
        let asks = match (in_place, &self.reentry) {
            (true, _) => "in place",
            (false, Some(_)) => "by re-entry",
            (false, None) => "nobody",
        };
        let mut note = Note::new("permission")
            .duty(Duty::Decides)
            .duty(Duty::GoesByCaller)
            .setting("rules", judge.rules().iter().len())
            .setting("unmatched", judge.unmatched)
            .setting("asks", asks);
        if !self.enforced {
            note = note.setting("mode", "audit only");
        }
        let has_approver = in_place || self.reentry.is_some();
        note = match (self.may_ask(), has_approver) {
            (true, true) => note.duty(Duty::Asks),
            (true, false) => note.duty(Duty::LacksApprover),
            (false, true) => note.duty(Duty::NeverAsks),
            (false, false) => note,
        };
        if self.engine.is_none() && !judge.may(Effect::Ask) && !judge.may(Effect::Deny) {
            note = note.duty(Duty::AllowsAll);
        }
        for rule in judge.rules().iter() {
            note = note.selects(format!("rule {}", rule.id), rule.tools.clone());
        }
        Some(note)
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Listed> {
        match (request, site.tool) {
            (View::Call(call), Some(tool)) => self.quick(call, tool),
            (View::Call(call), None) => Step::refuse(Refusal::unknown_tool(call.name())),
            (View::List(list), _) if self.enforced && self.judge.load().may_hide() => {
                Step::Continue(Listed { context: list.context.clone(), catalog: site.catalog.cloned() })
            }
            _ => Step::Pass,
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step<Listed>> {
        Box::pin(async move {
            let View::Call(call) = request else { return Step::Pass };
            let tool = site.catalog.and_then(|catalog| catalog.get(call.name()));
            let Some(tool) = tool else { return Step::refuse(Refusal::unknown_tool(call.name())) };
            let (name, deadline) = (call.name().clone(), call.context.deadline());
            let decided = self.decide(call, tool);
            let decided = match deadline {
                // A store or an engine may hang as well as a person.
                Some(deadline) => timeout_at(deadline, decided).await.unwrap_or_else(|_| Err(refusals::too_late(&name))),
                None => decided.await,
            };
            decided.unwrap_or_else(Step::Refuse)
        })
    }

    fn after(&self, listed: Listed, ending: Ending<'_>) {
        if let (Ending::Reply(Reply::List(list)), Some(catalog)) = (ending, &listed.catalog) {
            let judge = self.judge.load();
            let principal = listed.context.principal();
            // A tool that is not in the catalog cannot be judged here. A call of it is, and is refused.
            let tools = catalog.snapshot();
            list.retain(|tool| !tools.get(&tool.name).is_some_and(|entry| judge.always_denies(entry, principal)));
        }
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permission").field(&self.note()).finish()
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").finish_non_exhaustive()
    }
}

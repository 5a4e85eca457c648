//! What takes time: the engine, the grants, and the person.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, timeout_at};

use super::{
    Approval, ApprovalRequest, ApproverError, Decision, Effect, Opinion, Permission, Remember, Scope,
    decided::DecidedBy,
    judge::{Judge, Verdict},
    policy::{Listed, OnSwap},
    reentry::Back,
    refusals,
};
use crate::{
    error::{Refusal, RefusalKind},
    layer::Step,
    model::{Arguments, ToolCall, ToolResponse},
    store::{Grant, GrantEffect, GrantScope, Owner, ToolIdentity, after, unguessable},
    tool::ToolEntry,
};

/// What the rules and the engine say together.
struct Ruling {
    effect: Effect,
    verdict: Verdict,
    /// What the engine says, where it is the stricter one.
    engine: Option<Opinion>,
}

/// What came of asking.
enum Answer {
    Given(Approval),
    /// Given before, and found in this grant.
    Granted(Grant),
    /// To be given when the caller comes back.
    Later(Step<Listed>),
}

type Decides<T> = Result<T, Refusal>;

impl Permission {
    pub(super) async fn decide(&self, call: &mut ToolCall, tool: Arc<ToolEntry>) -> Decides<Step<Listed>> {
        let judge = self.judge.load_full();
        let ruling = self.rule(&judge, call, &tool).await?;
        if !self.enforced {
            self.report_ruling(&judge, &ruling, call, &tool);
            return Ok(Step::Pass);
        }
        let returns = self.reentry.as_ref().is_some_and(|reentry| reentry.id_of(call).is_some());
        match ruling.effect {
            Effect::Deny => return Err(self.denied(&judge, &ruling, call, &tool)),
            Effect::Allow if !returns => {
                self.report_ruling(&judge, &ruling, call, &tool);
                call.allow(tool.serial());
                return Ok(Step::Pass);
            }
            _ => {}
        }
        let answer = self.answer(&judge, &ruling, call, &tool, returns).await.inspect_err(|refusal| {
            let by = match refusal.kind() {
                RefusalKind::ApprovalNeeded | RefusalKind::Timeout | RefusalKind::Cancelled => DecidedBy::Nobody,
                _ => DecidedBy::Failure,
            };
            self.report(call, &tool, Effect::Deny, by);
        })?;
        // Whoever was asked took their time.
        let now = if self.on_swap == OnSwap::Finish { Arc::clone(&judge) } else { self.judge.load_full() };
        let swapped = !Arc::ptr_eq(&now, &judge);
        match answer {
            Answer::Later(step) => Ok(step),
            Answer::Granted(grant) if grant.effect == GrantEffect::Deny => {
                self.report(call, &tool, Effect::Deny, DecidedBy::Grant(&grant.id));
                Err(refusals::refused_by_person(call.name(), grant.reason.as_deref()))
            }
            Answer::Granted(grant) => {
                if swapped {
                    self.still_allowed(&now, call, &tool).await?;
                }
                self.report(call, &tool, Effect::Allow, DecidedBy::Grant(&grant.id));
                call.allow(tool.serial());
                Ok(Step::Pass)
            }
            Answer::Given(approval) => {
                let edits = matches!(approval.decision, Decision::Edit(_));
                if let Decision::Edit(arguments) = &approval.decision {
                    self.edit(call, arguments, &tool)?;
                }
                let runs = matches!(approval.decision, Decision::AllowOnce | Decision::Allow(_) | Decision::Edit(_));
                if runs && (swapped || edits) {
                    self.still_allowed(&now, call, &tool).await?;
                }
                self.carry_out(approval, ruling.verdict.remember, call, &tool).await
            }
        }
    }

    async fn rule(&self, judge: &Judge, call: &ToolCall, tool: &ToolEntry) -> Decides<Ruling> {
        let verdict = judge.judge(tool, call);
        let mut ruling = Ruling { effect: verdict.effect, verdict, engine: None };
        if let (Some(engine), true) = (&self.engine, verdict.effect < Effect::Deny) {
            let opinion = engine.judge(call, tool).await.map_err(|error| {
                self.report(call, tool, Effect::Deny, DecidedBy::Failure);
                refusals::broken(call.name(), "the policy engine could not decide", error)
            })?;
            if opinion.effect > verdict.effect {
                ruling.effect = opinion.effect;
                ruling.engine = Some(opinion);
            }
        }
        Ok(ruling)
    }

    fn report_ruling(&self, judge: &Judge, ruling: &Ruling, call: &ToolCall, tool: &ToolEntry) {
        match ruling.engine {
            Some(_) => self.report(call, tool, ruling.effect, DecidedBy::Engine),
            None => self.report_verdict(judge, ruling.verdict, call, tool),
        }
    }

    fn denied(&self, judge: &Judge, ruling: &Ruling, call: &ToolCall, tool: &ToolEntry) -> Refusal {
        self.report_ruling(judge, ruling, call, tool);
        match &ruling.engine {
            Some(opinion) => refusals::denied_by_engine(call.name(), opinion),
            None => refusals::denied(call.name(), judge.rule(ruling.verdict)),
        }
    }

    /// Judges what an answer made of the call, or of the rules. A person said yes already; a no of the rules counts all the same.
    async fn still_allowed(&self, judge: &Judge, call: &ToolCall, tool: &ToolEntry) -> Decides<()> {
        let ruling = self.rule(judge, call, tool).await?;
        if ruling.effect == Effect::Deny { Err(self.denied(judge, &ruling, call, tool)) } else { Ok(()) }
    }

    /// Puts an approver's arguments in their place, unless they change what is not the approver's either.
    fn edit(&self, call: &mut ToolCall, arguments: &Arguments, tool: &ToolEntry) -> Decides<()> {
        let was = call.clone();
        call.arguments = arguments.clone();
        let Some(name) = was.owned_change(call) else { return Ok(()) };
        self.report(call, tool, Effect::Deny, DecidedBy::Failure);
        Err(refusals::not_to_be_edited(call.name(), &name))
    }

    /// Finds an answer: one that the call brings back, one that was remembered, or a new one.
    async fn answer(&self, judge: &Judge, ruling: &Ruling, call: &mut ToolCall, tool: &Arc<ToolEntry>, returns: bool) -> Decides<Answer> {
        let remember = ruling.verdict.remember;
        let identity = ToolIdentity::of(tool);
        if let (true, Some(reentry)) = (returns, &self.reentry) {
            return Ok(match reentry.resume(call, &identity, remember).await? {
                Back::Answered(approval) => Answer::Given(approval),
                Back::Open(asked) => Answer::Later(Step::answer(ToolResponse::InputRequired(Box::new(asked)))),
            });
        }
        if remember && let Some(grant) = self.granted(call, &identity).await? {
            return Ok(Answer::Granted(grant));
        }
        let mut explanation = judge.explain(tool, call);
        if let Some(opinion) = &ruling.engine {
            explanation.effect = opinion.effect;
            explanation.engine = Some(opinion.reason.clone().unwrap_or_else(|| "it gives no reason".to_owned()));
        }
        let request = ApprovalRequest { call: call.clone(), tool: Arc::clone(tool), explanation, may_remember: remember };
        let approver = self.approver.load_full();
        match (approver, &self.reentry) {
            (Some(approver), _) => self.ask(&**approver, request).await.map(Answer::Given),
            (None, Some(reentry)) => {
                let asked = reentry.suspend(&request).await?;
                self.report(call, tool, Effect::Ask, DecidedBy::Nobody);
                Ok(Answer::Later(Step::answer(ToolResponse::InputRequired(Box::new(asked)))))
            }
            (None, None) => Err(refusals::undecided(call.name(), ApproverError::Absent, Duration::ZERO)),
        }
    }

    /// The answer to such a call that was remembered; a no before a yes.
    async fn granted(&self, call: &ToolCall, tool: &ToolIdentity) -> Decides<Option<Grant>> {
        let grants = self.grants.find(&Owner::of(&call.context), tool).await;
        let grants = grants.map_err(|error| refusals::broken(call.name(), "looking for an earlier approval failed", error))?;
        let covering = grants.into_iter().filter(|grant| grant.scope.covers(&call.arguments));
        Ok(covering.max_by_key(|grant| grant.effect == GrantEffect::Deny))
    }

    async fn ask(&self, approver: &dyn super::Approver, request: ApprovalRequest) -> Decides<Approval> {
        let name = request.call.name().clone();
        let cancellation = request.call.context.cancellation().cloned();
        let began = Instant::now();
        // Thirty years are for ever.
        let latest = began.checked_add(self.timeout).unwrap_or_else(|| began + Duration::from_secs(30 * 365 * 86_400));
        let latest = request.call.context.deadline().map_or(latest, |deadline| deadline.min(latest));
        let asked = async {
            match timeout_at(latest, approver.ask(request)).await {
                Ok(answer) => answer.map_err(|error| refusals::undecided(&name, error, began.elapsed())),
                Err(_) => Err(refusals::undecided(&name, ApproverError::TimedOut, began.elapsed())),
            }
        };
        match cancellation {
            None => asked.await,
            Some(cancellation) => match select(pin!(cancellation.cancelled()), pin!(asked)).await {
                Either::Left(_) => Err(refusals::cancelled(&name)),
                Either::Right((answer, _)) => answer,
            },
        }
    }

    async fn carry_out(&self, approval: Approval, may_remember: bool, call: &mut ToolCall, tool: &Arc<ToolEntry>) -> Decides<Step<Listed>> {
        let Approval { decision, reason } = approval;
        let effect = if matches!(decision, Decision::Deny | Decision::DenyAll(_)) { Effect::Deny } else { Effect::Allow };
        self.report(call, tool, effect, DecidedBy::Person);
        match decision {
            Decision::Answer(response) => return Ok(Step::answer(*response)),
            Decision::Allow(remember) if may_remember => self.remember(remember, GrantEffect::Allow, reason.clone(), call, tool).await,
            Decision::DenyAll(remember) if may_remember => self.remember(remember, GrantEffect::Deny, reason.clone(), call, tool).await,
            _ => {}
        }
        if effect == Effect::Deny {
            return Err(refusals::refused_by_person(call.name(), reason.as_deref()));
        }
        call.allow(tool.serial());
        Ok(Step::Pass)
    }

    /// Remembers an answer. What cannot be remembered is asked again the next time; the answer to this call stands.
    async fn remember(&self, remember: Remember, effect: GrantEffect, reason: Option<String>, call: &ToolCall, tool: &Arc<ToolEntry>) {
        let scope = match remember.scope {
            Scope::Tool => Some(GrantScope::Tool),
            Scope::Arguments(rules) => Some(GrantScope::Arguments(rules)),
            Scope::Call => GrantScope::call(&call.arguments),
        };
        let (Some(scope), Ok(id)) = (scope, unguessable()) else { return };
        let (owner, tool) = (Owner::of(&call.context), ToolIdentity::of(tool));
        let grant = Grant { id, effect, scope, owner, tool, reason, expires: after(Duration::from_secs(remember.seconds)) };
        if let Err(error) = self.grants.add(grant).await {
            tracing::warn!(tool = %call.name(), error = %error, "permission: an answer is not remembered");
        }
    }
}

//! The hooks of one layer, in the order in which they run, and the two ways through them.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{
    event::{AfterCall, Asked, BeforeCall, Items, Listed, Remarks, Request},
    halt::{self, Halt},
    hook::{Act, Hook, Run},
    run::{self, flow},
    when::{Event, selected},
};
use crate::{
    error::Refusal,
    layer::Site,
    model::{Context, Remark, ToolCall, ToolList, ToolName, ToolResponse, ToolResult},
    router::Catalog,
    tool::ToolEntry,
};

pub(super) struct Set {
    /// By event, and by registration within.
    pub(super) inward: Box<[Hook]>,
    pub(super) after: Box<[Hook]>,
    pub(super) observers: Box<[Hook]>,
    inward_waits: bool,
    /// Whether lists are gone through, and whether that takes time.
    pub(super) lists: bool,
    pub(super) lists_wait: bool,
    outward_scoped: bool,
    outward_waits: bool,
}

/// Why a request does not go on inward.
pub(super) enum Stop {
    Refuse(Refusal),
    Answer(ToolResponse),
}

/// What a call carries through the layer.
pub(super) struct CallRun {
    pub(super) call: ToolCall,
    pub(super) remarks: Vec<Remark>,
    /// The hook that stopped it.
    pub(super) halted: Option<Cow<'static, str>>,
    /// Which hooks on the way out are about this tool, by their number; empty for all of them.
    about: SmallVec<[u64; 1]>,
    /// Whether one of these takes its time.
    pub(super) waits: bool,
}

impl CallRun {
    #[inline]
    pub(super) fn is_about(&self, number: usize) -> bool {
        self.about.is_empty() || self.about[number / 64] >> (number % 64) & 1 == 1
    }
}

impl Set {
    pub(super) fn new(hooks: &[Hook]) -> Self {
        let of = |events: &[Event]| -> Box<[Hook]> {
            let mut hooks: Vec<_> = hooks.iter().filter(|hook| events.contains(&hook.event)).cloned().collect();
            if events.contains(&Event::Before) {
                hooks.sort_by_key(|hook| hook.event);
            }
            hooks.into()
        };
        let inward = of(&[Event::BeforeRequest, Event::AfterList, Event::Before]);
        let after = of(&[Event::After]);
        let observers = of(&[Event::OnSuccess, Event::OnError, Event::OnDenied, Event::OnFinish]);
        let list = |hook: &&Hook| hook.event == Event::AfterList;
        let outward = || after.iter().chain(&observers);
        Self {
            inward_waits: inward.iter().any(Hook::waits),
            lists: inward.iter().any(|hook| list(&hook)),
            lists_wait: inward.iter().filter(list).any(Hook::waits),
            outward_scoped: outward().any(|hook| hook.only.is_some()),
            outward_waits: outward().any(Hook::waits),
            inward,
            after,
            observers,
        }
    }

    pub(super) fn outward(&self) -> impl Iterator<Item = &Hook> {
        self.after.iter().chain(&self.observers)
    }

    /// Whether a hook takes its time on the way in.
    #[inline]
    pub(super) fn waits_inward(&self, asked: &Asked<'_>, tool: Option<&ToolEntry>) -> bool {
        self.inward_waits
            && self.inward.iter().any(|hook| {
                hook.waits()
                    && match asked {
                        Asked::Call(call) => selected(hook, tool, call.name()),
                        Asked::List(_) => hook.event == Event::BeforeRequest,
                    }
            })
    }

    /// What the hooks on the way out need.
    pub(super) fn run_of(&self, call: ToolCall, tool: Option<&ToolEntry>, remarks: Vec<Remark>) -> CallRun {
        let mut run = CallRun { call, remarks, halted: None, about: SmallVec::new(), waits: self.outward_waits };
        if self.outward_scoped {
            run.about.resize((self.after.len() + self.observers.len()).div_ceil(64), 0);
            run.waits = false;
            for (number, hook) in self.outward().enumerate() {
                if selected(hook, tool, run.call.name()) {
                    run.about[number / 64] |= 1 << (number % 64);
                    run.waits |= hook.waits();
                }
            }
        }
        run
    }

    /// Runs the hooks on the way in, until one stops the request.
    pub(super) async fn inward(
        &self,
        asked: &mut Asked<'_>,
        site: Site<'_>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), (Cow<'static, str>, Stop)> {
        for hook in &self.inward {
            let saved = hook.fail_open.then(|| Saved::of(asked, remarks));
            let flow = match (&hook.act, &mut *asked) {
                (Act::Request(run), asked) => {
                    let mut event = Request { asked: asked.reborrow(), remarks: Remarks { by: &hook.name, all: remarks } };
                    flow!(hook, run, &mut event)
                }
                (Act::List(run), Asked::Call(call)) if selected(hook, site.tool, call.name()) => {
                    let (mut flow, mut hidden) = (Ok(()), true);
                    if let Some(tool) = site.tool {
                        let mut event = Listed { items: Items::One(tool.spec(), true), context: &call.context, hook };
                        flow = flow!(hook, run, &mut event);
                        hidden = matches!(event.items, Items::One(_, false));
                    }
                    if flow.is_ok() && hidden {
                        return Err((hook.name.clone(), Stop::Refuse(Refusal::unknown_tool(call.name()))));
                    }
                    flow
                }
                (Act::Before(run), Asked::Call(call)) if selected(hook, site.tool, call.name()) => {
                    let remarks = Remarks { by: &hook.name, all: remarks };
                    let mut event = BeforeCall { call, tool: site.tool, answer: None, remarks };
                    let flow = flow!(hook, run, &mut event);
                    if let (Ok(()), Some(answer)) = (&flow, event.answer) {
                        return Err((hook.name.clone(), Stop::Answer(answer)));
                    }
                    flow
                }
                _ => continue,
            };
            if let Err(halt) = flow {
                let tool = match &asked {
                    Asked::Call(call) => Some(call.name()),
                    Asked::List(_) => None,
                };
                if let Some(refusal) = stopped(hook, halt, tool) {
                    return Err((hook.name.clone(), Stop::Refuse(refusal)));
                }
                if let Some(saved) = saved {
                    saved.restore(asked, remarks);
                }
            }
        }
        Ok(())
    }

    /// Runs the hooks over a list.
    pub(super) async fn listed(&self, list: &mut ToolList, context: &Context, catalog: Option<&Catalog>) {
        for hook in &self.inward {
            let Act::List(run) = &hook.act else { continue };
            if list.refusal().is_some() {
                return;
            }
            let saved = hook.fail_open.then(|| list.clone());
            let mut event = Listed { items: Items::Many(list, catalog), context, hook };
            let flow = flow!(hook, run, &mut event);
            if let Err(halt) = flow {
                match stopped(hook, halt, None) {
                    Some(refusal) => *list = ToolList::refused(refusal),
                    None => *list = saved.unwrap_or_default(),
                }
            }
        }
    }

    /// Runs the hooks over a response, and adds the remarks to it.
    pub(super) async fn outward_over(&self, run: &mut CallRun, response: &mut ToolResponse) {
        if run.halted.is_none() {
            if let ToolResponse::Complete(result) = response {
                self.results(run, result).await;
            }
        }
        for remark in run.remarks.drain(..) {
            response.add_remark(remark);
        }
    }

    async fn results(&self, run: &mut CallRun, result: &mut ToolResult) {
        for (number, hook) in self.after.iter().enumerate() {
            let Act::After(act) = &hook.act else { continue };
            if !run.is_about(number) {
                continue;
            }
            let saved = hook.fail_open.then(|| (result.clone(), run.remarks.len()));
            let remarks = Remarks { by: &hook.name, all: &mut run.remarks };
            let mut event = AfterCall { call: &run.call, result, remarks };
            let flow = flow!(hook, act, &mut event);
            let Err(halt) = flow else { continue };
            let Some(refusal) = stopped(hook, halt, Some(run.call.name())) else {
                if let Some((saved, remarks)) = saved {
                    *result = saved;
                    run.remarks.truncate(remarks);
                }
                continue;
            };
            let earlier = result.take_remarks();
            *result = ToolResult::refused(refusal);
            for remark in earlier {
                result.add_remark(remark);
            }
            run.halted = Some(hook.name.clone());
            return;
        }
    }
}

/// The refusal that a halt amounts to; `None` for a failure of a hook that fails open.
#[cold]
fn stopped(hook: &Hook, halt: Halt, tool: Option<&ToolName>) -> Option<Refusal> {
    let halt = match halt.into_failure() {
        Ok(error) if hook.fail_open => {
            run::report(hook, &error, "the request goes on");
            return None;
        }
        Ok(error) => {
            run::report(hook, &error, "the request is refused");
            let refusal = if hook.event == Event::After { halt::failed_after(error) } else { halt::failed(error) };
            return Some(refusal.with_by(hook.name.clone()));
        }
        Err(halt) => halt,
    };
    tracing::debug!(hook = %hook.name, event = %hook.event, reason = ?halt, "a hook stopped a request");
    Some(halt.into_refusal(&hook.name, tool))
}

/// A request as it was before a hook that may fail open.
struct Saved {
    call: Option<ToolCall>,
    context: Option<Context>,
    remarks: usize,
}

impl Saved {
    fn of(asked: &Asked<'_>, remarks: &[Remark]) -> Self {
        let (call, context) = match asked {
            Asked::Call(call) => (Some((**call).clone()), None),
            Asked::List(list) => (None, Some(list.context.clone())),
        };
        Self { call, context, remarks: remarks.len() }
    }

    fn restore(self, asked: &mut Asked<'_>, remarks: &mut Vec<Remark>) {
        match (asked, self.call, self.context) {
            (Asked::Call(call), Some(saved), _) => **call = saved,
            (Asked::List(list), _, Some(saved)) => list.context = saved,
            _ => {}
        }
        remarks.truncate(self.remarks);
    }
}

//! The way through the hooks, inward and outward.

use super::{
    about::About,
    event::{AfterCall, Asked, BeforeCall, Items, Listed, Place, Remarks, Request},
    halt::{self, Halt},
    hook::{Act, Flow, Hook, Run},
    run::{flat, later, now, report},
    set::{CallRun, Set, Stop, Stopped},
    when::Event,
};
use crate::{
    error::Refusal,
    model::{Context, Remark, ToolCall, ToolList, ToolName, ToolResponse, ToolResult},
    router::Catalog,
};

/// How far the hooks on the way in got.
pub(super) enum Walk {
    Through,
    Stopped(Box<Stopped>),
    /// This one takes its time.
    Waits(usize),
}

/// What came of one hook.
type Ran = Result<Flow, Box<Stopped>>;

/// Runs one hook on the way in. The same for one that answers at once as for one that takes its time, but for how it is run.
macro_rules! one {
    ($hook:ident, $asked:ident, $place:ident, $remarks:ident, $run:ident: $form:pat, $event:ident => $flow:expr) => {
        match (&$hook.act, $asked) {
            (Act::Request($form), $asked) => {
                let $event = &mut Request { asked: $asked.reborrow(), remarks: Remarks { by: &$hook.name, all: $remarks } };
                Ok($flow)
            }
            (Act::List($form), Asked::Call(call)) => {
                let Some(tool) = $place.site.tool else { return Err(unknown($hook, call)) };
                let $event = &mut Listed { items: Items::One(tool.spec(), true), context: &call.context, hook: $hook };
                let flow = $flow;
                let hidden = matches!($event.items, Items::One(_, false));
                if flow.is_ok() && hidden { Err(unknown($hook, call)) } else { Ok(flow) }
            }
            (Act::Before($form), Asked::Call(call)) => {
                let remarks = Remarks { by: &$hook.name, all: $remarks };
                let $event = &mut BeforeCall { call, place: $place, answer: None, remarks };
                let flow = $flow;
                $event.judged();
                match $event.answer.take() {
                    Some(answer) if flow.is_ok() => Err(Box::new(Stopped { by: $hook.name.clone(), stop: Stop::Answer(*answer) })),
                    _ => Ok(flow),
                }
            }
            _ => Ok(Ok(())),
        }
    };
}

#[inline]
fn one_now(hook: &Hook, asked: &mut Asked<'_>, place: &Place<'_>, remarks: &mut Vec<Remark>) -> Ran {
    one!(hook, asked, place, remarks, run: Run::Now(run), event => flat(now(|| run(event))))
}

async fn one_later(hook: &Hook, asked: &mut Asked<'_>, place: &Place<'_>, remarks: &mut Vec<Remark>) -> Ran {
    one!(hook, asked, place, remarks, run: Run::Later(run), event => flat(later(hook, || run(event)).await))
}

#[cold]
fn unknown(hook: &Hook, call: &ToolCall) -> Box<Stopped> {
    Box::new(Stopped { by: hook.name.clone(), stop: Stop::Refuse(Refusal::unknown_tool(call.name())) })
}

/// What a hook that does not let through amounts to: nothing, where it failed and fails open.
#[cold]
fn judged(hook: &Hook, halt: Halt, asked: &Asked<'_>) -> Option<Box<Stopped>> {
    let tool = match asked {
        Asked::Call(call) => Some(call.name()),
        Asked::List(_) => None,
    };
    let refusal = refusal(hook, halt, tool)?;
    Some(Box::new(Stopped { by: hook.name.clone(), stop: Stop::Refuse(refusal) }))
}

#[cold]
fn refusal(hook: &Hook, halt: Halt, tool: Option<&ToolName>) -> Option<Refusal> {
    let halt = match halt.into_failure() {
        Ok(error) if hook.fail_open => {
            report(hook, &error, "the request goes on");
            return None;
        }
        Ok(error) => {
            report(hook, &error, "the request is refused");
            let refusal = if hook.event == Event::After { halt::failed_after(error) } else { halt::failed(error) };
            return Some(refusal.with_by(hook.name.clone()));
        }
        Err(halt) => halt,
    };
    tracing::debug!(hook = %hook.name, event = %hook.event, reason = ?halt, "a hook stopped a request");
    Some(halt.into_refusal(hook.name.clone(), tool))
}

impl Set {
    /// Runs the hooks on the way in, from this one on, as far as they answer at once.
    #[inline]
    pub(super) fn inward_now(
        &self,
        asked: &mut Asked<'_>,
        place: &Place<'_>,
        about: &About,
        remarks: &mut Vec<Remark>,
        from: usize,
    ) -> Walk {
        let (hooks, mut next) = (self.inward_of(asked), from);
        while let Some(hook) = hooks.get(next) {
            let at = next;
            next += 1;
            if !about.has(at) {
                continue;
            }
            if hook.waits {
                return Walk::Waits(at);
            }
            let ran = if hook.fail_open { open_now(hook, asked, place, remarks) } else { one_now(hook, asked, place, remarks) };
            match ran {
                Ok(Ok(())) => {}
                Ok(Err(halt)) => {
                    if let Some(stopped) = judged(hook, halt, asked) {
                        return Walk::Stopped(stopped);
                    }
                }
                Err(stopped) => return Walk::Stopped(stopped),
            }
        }
        Walk::Through
    }

    /// Runs the hooks on the way in, until one stops the request.
    pub(super) async fn inward(
        &self,
        asked: &mut Asked<'_>,
        place: &Place<'_>,
        about: &About,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), Box<Stopped>> {
        let mut from = 0;
        loop {
            let at = match self.inward_now(asked, place, about, remarks, from) {
                Walk::Through => return Ok(()),
                Walk::Stopped(stopped) => return Err(stopped),
                Walk::Waits(at) => at,
            };
            let hook = &self.inward[at];
            let saved = hook.fail_open.then(|| Saved::of(asked, remarks));
            if let Err(halt) = one_later(hook, asked, place, remarks).await? {
                match judged(hook, halt, asked) {
                    Some(stopped) => return Err(stopped),
                    None => saved.into_iter().for_each(|saved| saved.restore(asked, remarks)),
                }
            }
            from = at + 1;
        }
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
            let flow = match run {
                Run::Now(run) => flat(now(|| run(&mut event))),
                Run::Later(run) => flat(later(hook, || run(&mut event)).await),
            };
            if let Err(halt) = flow {
                match refusal(hook, halt, None) {
                    Some(refusal) => *list = ToolList::refused(refusal),
                    None => *list = saved.unwrap_or_default(),
                }
            }
        }
    }

    /// Runs the hooks over a response, and adds the remarks to it, as far as they answer at once.
    #[inline]
    pub(super) fn outward_now(&self, run: &mut CallRun, response: &mut ToolResponse) {
        let mut remarks = run.take_remarks();
        if let (None, ToolResponse::Complete(result)) = (run.halted(), &mut *response) {
            for (number, hook) in self.after.iter().enumerate() {
                let (Act::After(Run::Now(act)), true) = (&hook.act, self.changes(run, number)) else { continue };
                let saved = hook.fail_open.then(|| (result.clone(), remarks.len()));
                let mut event = AfterCall { call: &run.call, result, remarks: Remarks { by: &hook.name, all: &mut remarks } };
                if let Err(halt) = flat(now(|| act(&mut event)))
                    && withheld(hook, halt, run, result, &mut remarks, saved)
                {
                    break;
                }
            }
        }
        add(remarks, response);
    }

    /// Runs the hooks over a response, and adds the remarks to it.
    pub(super) async fn outward_over(&self, run: &mut CallRun, response: &mut ToolResponse) {
        let mut remarks = run.take_remarks();
        if let (None, ToolResponse::Complete(result)) = (run.halted(), &mut *response) {
            for (number, hook) in self.after.iter().enumerate() {
                let (Act::After(act), true) = (&hook.act, self.changes(run, number)) else { continue };
                let saved = hook.fail_open.then(|| (result.clone(), remarks.len()));
                let mut event = AfterCall { call: &run.call, result, remarks: Remarks { by: &hook.name, all: &mut remarks } };
                let flow = match act {
                    Run::Now(act) => flat(now(|| act(&mut event))),
                    Run::Later(act) => flat(later(hook, || act(&mut event)).await),
                };
                if let Err(halt) = flow
                    && withheld(hook, halt, run, result, &mut remarks, saved)
                {
                    break;
                }
            }
        }
        add(remarks, response);
    }
}

#[inline]
fn add(remarks: Vec<Remark>, response: &mut ToolResponse) {
    if remarks.is_empty() {
        return;
    }
    for remark in remarks {
        response.add_remark(remark);
    }
}

/// Puts a refusal in the place of a result, or what the result was before a hook that failed and fails open.
#[cold]
fn withheld(
    hook: &Hook,
    halt: Halt,
    run: &mut CallRun,
    result: &mut ToolResult,
    remarks: &mut Vec<Remark>,
    saved: Option<(ToolResult, usize)>,
) -> bool {
    let Some(refusal) = refusal(hook, halt, Some(run.call.name())) else {
        if let Some((saved, length)) = saved {
            *result = saved;
            remarks.truncate(length);
        }
        return false;
    };
    let earlier = result.take_remarks();
    *result = ToolResult::refused(refusal);
    for remark in earlier {
        result.add_remark(remark);
    }
    run.halt(hook.name.clone());
    true
}

#[inline(never)]
fn open_now(hook: &Hook, asked: &mut Asked<'_>, place: &Place<'_>, remarks: &mut Vec<Remark>) -> Ran {
    let saved = Saved::of(asked, remarks);
    let ran = one_now(hook, asked, place, remarks);
    if matches!(&ran, Ok(Err(halt)) if halt.is_failure()) {
        saved.restore(asked, remarks);
    }
    ran
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

//! The hooks of one layer, in the order in which they run.

use std::borrow::Cow;

use super::{
    background::Background,
    event::Asked,
    hook::Hook,
    when::{Event, selected},
};
use crate::{
    error::Refusal,
    model::{Remark, ToolCall, ToolResponse},
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
    after_waits: bool,
    /// Whether any of them is about some tools only, or takes tools away.
    pub(super) looks: bool,
    /// Where async observers hear.
    pub(super) background: Background,
    pub(super) limits: Limits,
}

/// How much async observers may be behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of how many calls at once they hear.
    pub(super) at_once: usize,
    /// How many calls wait for their turn, and how many bytes these may keep.
    pub(super) waiting: usize,
    pub(super) bytes: usize,
}

/// Why a request does not go on inward, and the hook that says so.
pub(super) struct Stopped {
    pub(super) by: Cow<'static, str>,
    pub(super) stop: Stop,
}

pub(super) enum Stop {
    Refuse(Refusal),
    Answer(ToolResponse),
}

/// What a call carries through the layer.
pub(super) struct CallRun {
    pub(super) call: ToolCall,
    /// Which of the first hooks on the way out are about this tool, by their number.
    about: u64,
    /// Whether one of the hooks over the result takes its time.
    pub(super) waits: bool,
    /// Whether the hooks over the result have run.
    pub(super) settled: bool,
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    remarks: Vec<Remark>,
    halted: Option<Cow<'static, str>>,
    /// Which of the further hooks are about this tool; empty for all of them.
    about: Vec<u64>,
}

impl CallRun {
    #[inline]
    pub(super) fn is_about(&self, number: usize) -> bool {
        match number.checked_sub(64) {
            None => self.about >> number & 1 == 1,
            Some(further) => {
                self.rare.as_ref().and_then(|rare| rare.about.get(further / 64)).is_none_or(|about| about >> (further % 64) & 1 == 1)
            }
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The hook that stopped it.
    #[inline]
    pub(super) fn halted(&self) -> Option<&Cow<'static, str>> {
        self.rare.as_ref()?.halted.as_ref()
    }

    pub(super) fn halt(&mut self, by: Cow<'static, str>) {
        self.rare().halted = Some(by);
    }

    #[inline]
    pub(super) fn take_remarks(&mut self) -> Vec<Remark> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.remarks)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn put_remarks(&mut self, remarks: Vec<Remark>) {
        if !remarks.is_empty() {
            self.rare().remarks = remarks;
        }
    }
}

impl Set {
    pub(super) fn new(hooks: &[Hook], background: Background, limits: Limits) -> Self {
        let of = |events: &[Event]| -> Box<[Hook]> { hooks.iter().filter(|hook| events.contains(&hook.event)).cloned().collect() };
        let mut inward = of(&[Event::BeforeRequest, Event::AfterList, Event::Before]);
        inward.sort_by_key(|hook| hook.event);
        let after = of(&[Event::After]);
        let observers = of(&[Event::OnSuccess, Event::OnError, Event::OnDenied, Event::OnFinish]);
        let list = |hook: &&Hook| hook.event == Event::AfterList;
        let outward = || after.iter().chain(&observers);
        Self {
            inward_waits: inward.iter().any(|hook| hook.waits),
            lists: inward.iter().any(|hook| list(&hook)),
            lists_wait: inward.iter().filter(list).any(|hook| hook.waits),
            outward_scoped: outward().any(|hook| hook.only.is_some()),
            after_waits: after.iter().any(|hook| hook.waits),
            looks: hooks.iter().any(|hook| list(&hook) || hook.only.is_some()),
            inward,
            after,
            observers,
            background,
            limits,
        }
    }

    pub(super) fn outward(&self) -> impl Iterator<Item = &Hook> {
        self.after.iter().chain(&self.observers)
    }

    /// Whether a hook takes its time on the way in.
    #[inline]
    pub(super) fn waits_inward(&self, asked: &Asked<'_>, tool: Option<&ToolEntry>) -> bool {
        self.inward_waits && self.inward.iter().any(|hook| hook.waits && concerns(hook, asked, tool))
    }

    /// What the hooks on the way out need.
    #[inline]
    pub(super) fn run_of(&self, call: ToolCall, tool: Option<&ToolEntry>, remarks: Vec<Remark>) -> CallRun {
        let mut run = CallRun { call, about: u64::MAX, waits: self.after_waits, settled: false, rare: None };
        run.put_remarks(remarks);
        if self.outward_scoped {
            self.scope(&mut run, tool);
        }
        run
    }

    fn scope(&self, run: &mut CallRun, tool: Option<&ToolEntry>) {
        (run.about, run.waits) = (0, false);
        let count = self.after.len() + self.observers.len();
        if count > 64 {
            run.rare().about.resize((count - 64).div_ceil(64), 0);
        }
        for (number, hook) in self.outward().enumerate() {
            if !selected(hook, tool, run.call.name()) {
                continue;
            }
            run.waits |= hook.waits && hook.event == Event::After;
            match number.checked_sub(64) {
                None => run.about |= 1 << number,
                Some(further) => run.rare().about[further / 64] |= 1 << (further % 64),
            }
        }
    }
}

/// Whether a hook on the way in runs for this request.
#[inline]
pub(super) fn concerns(hook: &Hook, asked: &Asked<'_>, tool: Option<&ToolEntry>) -> bool {
    match asked {
        Asked::Call(call) => selected(hook, tool, call.name()),
        Asked::List(_) => hook.event == Event::BeforeRequest,
    }
}

//! The hooks of one layer, in the order in which they run.

use std::borrow::Cow;

use super::{
    about::{About, Scopes},
    background::Background,
    event::Asked,
    hook::Hook,
    when::Event,
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
    /// How many of these are for requests of any kind: the first ones.
    requests: usize,
    inward_waits: bool,
    /// Whether lists are gone through, and whether that takes time.
    pub(super) lists: bool,
    pub(super) lists_wait: bool,
    after_waits: bool,
    /// Where any hook is about some tools only.
    scopes: Option<Scopes>,
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
    pub(super) about: About,
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
}

impl CallRun {
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
}

impl Set {
    pub(super) fn new(hooks: &[Hook], background: Background, limits: Limits) -> Self {
        let of = |events: &[Event]| -> Box<[Hook]> { hooks.iter().filter(|hook| events.contains(&hook.event)).cloned().collect() };
        let mut inward = of(&[Event::BeforeRequest, Event::AfterList, Event::Before]);
        inward.sort_by_key(|hook| hook.event);
        let after = of(&[Event::After]);
        let observers = of(&[Event::OnSuccess, Event::OnError, Event::OnDenied, Event::OnFinish]);
        let list = |hook: &&Hook| hook.event == Event::AfterList;
        let scopes = Scopes::new(hooks);
        Self {
            requests: inward.iter().filter(|hook| hook.event == Event::BeforeRequest).count(),
            inward_waits: inward.iter().any(|hook| hook.waits),
            lists: inward.iter().any(|hook| list(&hook)),
            lists_wait: inward.iter().filter(list).any(|hook| hook.waits),
            after_waits: after.iter().any(|hook| hook.waits),
            looks: scopes.is_some() || hooks.iter().any(|hook| list(&hook)),
            scopes,
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

    /// The hooks that are about the tool of this request. They are numbered inward and then outward.
    #[inline]
    pub(super) fn about(&self, asked: &Asked<'_>, tool: Option<&ToolEntry>) -> About {
        match (&self.scopes, asked) {
            (Some(scopes), Asked::Call(call)) => scopes.about(self.inward.iter().chain(self.outward()), tool, call.name()),
            _ => About::ALL,
        }
    }

    /// The hooks on the way in that there are for a request of this kind.
    #[inline]
    pub(super) fn inward_of(&self, asked: &Asked<'_>) -> &[Hook] {
        match asked {
            Asked::Call(_) => &self.inward,
            Asked::List(_) => self.inward.get(..self.requests).unwrap_or_default(),
        }
    }

    /// Whether a hook on the way in takes its time.
    #[inline]
    pub(super) fn waits_inward(&self, asked: &Asked<'_>, about: &About) -> bool {
        self.inward_waits && self.inward_of(asked).iter().enumerate().any(|(number, hook)| hook.waits && about.has(number))
    }

    /// Whether the hook over results of this number is about the tool of this call.
    #[inline]
    pub(super) fn changes(&self, run: &CallRun, number: usize) -> bool {
        run.about.has(self.inward.len() + number)
    }

    /// Whether the observer of this number is about the tool of this call.
    #[inline]
    pub(super) fn observes(&self, run: &CallRun, number: usize) -> bool {
        run.about.has(self.inward.len() + self.after.len() + number)
    }

    /// What the hooks on the way out need.
    // It is long: within the one function that each call goes through, it is written where it stays.
    #[inline(always)]
    pub(super) fn run_of(&self, call: &ToolCall, about: About, remarks: Vec<Remark>) -> CallRun {
        let waits = self.after_waits && self.after.iter().enumerate().any(|(at, hook)| hook.waits && about.has(self.inward.len() + at));
        let rare = if remarks.is_empty() { None } else { Some(Box::new(Rare { remarks, halted: None })) };
        CallRun { call: call.clone(), about, waits, settled: false, rare }
    }
}

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use serde_json::Value;

use super::{Effect, Explanation, Rule, Rules, Truth, explain::Standing, rule::readable};
use crate::{
    model::{Principal, ToolCall, ToolName},
    tool::ToolEntry,
};

/// A set of rules at work: which of them can be about a tool is found out once for each tool.
pub(super) struct Judge {
    rules: Rules,
    pub(super) unmatched: Effect,
    tools: Tools,
}

/// What the rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) effect: Effect,
    /// The rule that says so; `None` where none is about the call.
    pub(super) rule: Option<usize>,
    /// For `ask`: whether an answer may be remembered.
    pub(super) remember: bool,
}

impl Judge {
    pub(super) fn new(rules: Rules, unmatched: Effect) -> Self {
        Self { rules, unmatched, tools: Tools::default() }
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn rule(&self, verdict: Verdict) -> Option<&Rule> {
        self.rules.shared().get(verdict.rule?)
    }

    /// What the rules say about this call. Allocates nothing once the tool is known, but for the view of the arguments, where nobody looked
    /// at them before.
    pub(super) fn judge(&self, tool: &ToolEntry, call: &ToolCall) -> Verdict {
        self.tools.with(tool, &self.rules, |about| {
            let rules = self.rules.shared();
            let principal = call.context.principal();
            let mut arguments: Option<Option<&Value>> = None;
            let mut truth = |rule: &Rule| {
                if !rule.principal.matches(principal) {
                    return Truth::False;
                }
                if rule.arguments.is_empty() {
                    return Truth::True;
                }
                rule.holds(*arguments.get_or_insert_with(|| readable(&call.arguments)))
            };
            let effective = |effect: Effect, truth: Truth| truth == Truth::True || (truth == Truth::Unknown && effect > Effect::Allow);

            if let Some(&at) = about.deny.iter().find(|&&at| effective(Effect::Deny, truth(&rules[at as usize]))) {
                return Verdict { effect: Effect::Deny, rule: Some(at as usize), remember: false };
            }
            let mut asks = None;
            let mut remember = true;
            for &at in about.ask.iter() {
                if effective(Effect::Ask, truth(&rules[at as usize])) {
                    asks = asks.or(Some(at as usize));
                    remember &= rules[at as usize].remember;
                }
            }
            if asks.is_some() {
                return Verdict { effect: Effect::Ask, rule: asks, remember };
            }
            let mut unknown = false;
            for &at in about.allow.iter() {
                match truth(&rules[at as usize]) {
                    Truth::True => return Verdict { effect: Effect::Allow, rule: Some(at as usize), remember: false },
                    Truth::Unknown => unknown = true,
                    Truth::False => {}
                }
            }
            // What a rule cannot tell is not let through as if no rule were about it.
            let effect = if unknown { self.unmatched.max(Effect::Ask) } else { self.unmatched };
            Verdict { effect, rule: None, remember: true }
        })
    }

    /// Whether every call of this tool by this principal is denied, whatever its arguments.
    pub(super) fn always_denies(&self, tool: &ToolEntry, principal: &Principal) -> bool {
        self.tools.with(tool, &self.rules, |about| {
            let rules = self.rules.shared();
            let applies = |at: &&u32| rules[**at as usize].principal.matches(principal);
            let denied = about.deny.iter().filter(applies).any(|&at| rules[at as usize].arguments.is_empty());
            let nothing_else = self.unmatched == Effect::Deny && !about.ask.iter().chain(about.allow.iter()).any(|at| applies(&at));
            denied || nothing_else
        })
    }

    /// Whether there may be tools that every call of is denied.
    pub(super) fn may_hide(&self) -> bool {
        self.unmatched == Effect::Deny || self.rules.iter().any(|rule| rule.effect == Effect::Deny && rule.arguments.is_empty())
    }

    /// Whether any call may end so by the rules alone.
    pub(super) fn may(&self, effect: Effect) -> bool {
        self.unmatched == effect || self.rules.iter().any(|rule| rule.effect == effect)
    }

    /// What the rules say, and what each of them has to do with it.
    pub(super) fn explain(&self, tool: &ToolEntry, call: &ToolCall) -> Explanation {
        let verdict = self.judge(tool, call);
        let arguments = readable(&call.arguments);
        let mut explanation = Explanation::new(&call.name().clone(), verdict.effect, self.unmatched);
        for (at, rule) in self.rules.iter().enumerate() {
            let standing = if !rule.tools.matches(tool) {
                Standing::OtherTool
            } else if !rule.principal.matches(call.context.principal()) {
                Standing::OtherPrincipal
            } else {
                match rule.holds(arguments) {
                    Truth::False => Standing::OtherArguments,
                    Truth::Unknown if !rule.takes_effect(Truth::Unknown) => Standing::CannotTell,
                    _ if verdict.rule == Some(at) => Standing::Decides,
                    _ if rule.effect == verdict.effect => Standing::Agrees,
                    _ => Standing::Overruled,
                }
            };
            let told = rule.holds(arguments) != Truth::Unknown;
            explanation.push(rule, standing, told, || {
                let unknown = |argument: &&super::ArgumentRule| arguments.is_none_or(|root| argument.evaluate(root) == Truth::Unknown);
                rule.arguments.iter().filter(unknown).map(|argument| argument.path().to_string()).collect()
            });
        }
        explanation
    }
}

/// The rules that can be about one tool, by effect, each in the order of their ids.
#[derive(Default)]
struct About {
    serial: u64,
    deny: Box<[u32]>,
    ask: Box<[u32]>,
    allow: Box<[u32]>,
}

impl About {
    fn new(tool: &ToolEntry, rules: &Rules) -> Self {
        let of = |effect: Effect| {
            let rules = rules.shared();
            let selected = rules.iter().enumerate().filter(|(_, rule)| rule.effect == effect && rule.tools.matches(tool));
            let mut at: Vec<u32> = selected.filter_map(|(at, _)| u32::try_from(at).ok()).collect();
            at.sort_by(|a, b| rules[*a as usize].id.cmp(&rules[*b as usize].id));
            at.into_boxed_slice()
        };
        Self { serial: tool.serial(), deny: of(Effect::Deny), ask: of(Effect::Ask), allow: of(Effect::Allow) }
    }
}

type Map = HashMap<ToolName, Arc<About>, RandomState>;

/// What is known of the tools, by the names that they have here. Read without a lock.
#[derive(Default)]
struct Tools {
    known: ArcSwap<Map>,
    /// All that is known, and how much of it `known` lacks.
    learnt: Mutex<(Map, usize)>,
}

impl Tools {
    /// More than any catalog has: beyond, what is known is forgotten, and found out anew.
    const MAX: usize = 1 << 17;

    fn with<R>(&self, tool: &ToolEntry, rules: &Rules, look: impl FnOnce(&About) -> R) -> R {
        let known = self.known.load();
        match known.get(&tool.spec().name) {
            Some(about) if about.serial == tool.serial() => look(about),
            _ => look(&self.learn(tool, rules)),
        }
    }

    #[cold]
    fn learn(&self, tool: &ToolEntry, rules: &Rules) -> Arc<About> {
        let about = Arc::new(About::new(tool, rules));
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let (map, missing) = &mut *learnt;
        if map.len() >= Self::MAX {
            map.clear();
        }
        map.insert(tool.spec().name.clone(), Arc::clone(&about));
        *missing += 1;
        // The first tools at once, later ones by and by, so that learning many does not copy the map for each.
        if *missing > map.len() / 8 {
            *missing = 0;
            self.known.store(Arc::new(map.clone()));
        }
        about
    }
}

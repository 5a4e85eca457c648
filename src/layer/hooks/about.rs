//! Which hooks are about which tool: worked out once for each registration of a tool.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;

use super::{hook::Hook, when::selected};
use crate::{select::ToolSelector, tool::ToolEntry};

/// The hooks that are about the tool of a call, by their number in the layer.
#[derive(Clone)]
pub(super) struct About {
    /// The first 64 of them, a bit each.
    first: u64,
    /// The others; `None` for all of them.
    further: Option<Arc<[u64]>>,
}

impl About {
    pub(super) const ALL: Self = Self { first: u64::MAX, further: None };

    #[inline]
    pub(super) fn has(&self, number: usize) -> bool {
        if number < 64 { self.first >> number & 1 == 1 } else { self.has_further(number - 64) }
    }

    #[cold]
    fn has_further(&self, further: usize) -> bool {
        let Some(bits) = &self.further else { return true };
        bits.get(further / 64).is_some_and(|bits| bits >> (further % 64) & 1 == 1)
    }

    fn of<'a>(hooks: impl Iterator<Item = &'a Hook>, tool: Option<&ToolEntry>, name: &str) -> Self {
        let (mut first, mut further) = (0, Vec::new());
        for (number, hook) in hooks.enumerate() {
            if number > 0 && number % 64 == 0 {
                further.push(0);
            }
            *further.last_mut().unwrap_or(&mut first) |= u64::from(selected(hook, tool, name)) << (number % 64);
        }
        Self { first, further: (!further.is_empty()).then(|| further.into()) }
    }
}

/// What is known of the tools that were called, by their serial.
type Known = HashMap<u64, About, FixedState>;

/// Tells which hooks are about a tool, and remembers it where working it out takes longer. Reading shares nothing that is written to.
pub(super) struct Scopes(Option<ArcSwap<Known>>);

impl Scopes {
    /// How many tools are remembered. Beyond, it begins anew: those that are still called come back soon.
    const MAX: usize = 1024;

    /// For these hooks; `None` where each is about all tools.
    pub(super) fn new(hooks: &[Hook]) -> Option<Self> {
        let scoped = || hooks.iter().filter_map(|hook| hook.only.as_deref());
        let quick = hooks.len() <= 64 && scoped().count() <= 2 && scoped().all(ToolSelector::is_quick);
        scoped().next().map(|_| Self((!quick).then(ArcSwap::default)))
    }

    pub(super) fn about<'a>(&self, hooks: impl Iterator<Item = &'a Hook>, tool: Option<&ToolEntry>, name: &str) -> About {
        let (Some(known), Some(tool)) = (&self.0, tool) else { return About::of(hooks, tool, name) };
        if let Some(about) = known.load().get(&tool.serial()) {
            return about.clone();
        }
        Self::learn(known, tool.serial(), About::of(hooks, Some(tool), name))
    }

    #[cold]
    fn learn(known: &ArcSwap<Known>, serial: u64, about: About) -> About {
        known.rcu(|known| {
            let mut known = if known.len() < Self::MAX { Known::clone(known) } else { Known::default() };
            known.insert(serial, about.clone());
            known
        });
        about
    }
}

//! What happens to an operation on its way inward, for whoever observes it from further out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smol_str::SmolStr;
use tokio::time::Instant;

use super::{Arguments, Principal, ToolCall, TraceContext};
use crate::layer::{audit::Asked, permission::Effect};

/// Followed by one observer. It stays with the operation until the tool begins; one of an observer further out hears the same.
pub(crate) struct Trail {
    outer: Option<Arc<Self>>,
    /// The operation where the trail begins.
    asked: Asked,
    notes: Mutex<Notes>,
}

/// What was noted so far.
#[derive(Default)]
pub(crate) struct Notes {
    /// When the tool began, the first time.
    pub(crate) began: Option<Instant>,
    /// How often it began.
    pub(crate) runs: u32,
    /// What the tool was given the last time, where that is other JSON than what was asked.
    pub(crate) given: Option<Arguments>,
    /// Who turned out to ask.
    pub(crate) principal: Option<Arc<Principal>>,
    /// The trace that the operation turned out to be part of.
    pub(crate) trace: Option<u128>,
    /// What was decided last.
    pub(crate) decided: Option<Decided>,
}

/// A decision whether the tool may run.
pub(crate) struct Decided {
    pub(crate) effect: Effect,
    /// A word for who or what decided.
    pub(crate) by: &'static str,
    /// Which rule or grant, where it was one.
    pub(crate) id: Option<SmolStr>,
    pub(crate) enforced: bool,
}

impl Trail {
    pub(crate) fn new(outer: Option<Arc<Self>>, asked: Asked) -> Arc<Self> {
        Arc::new(Self { outer, asked, notes: Mutex::default() })
    }

    /// What was noted. Nobody else writes any more once the operation is over.
    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn asked(&self) -> &Asked {
        &self.asked
    }

    fn each(&self, mut note: impl FnMut(&Self, &mut Notes)) {
        let mut trail = Some(self);
        while let Some(this) = trail {
            note(this, &mut this.notes());
            trail = this.outer.as_deref();
        }
    }

    /// The tool begins.
    pub(crate) fn begin(&self, call: &ToolCall) {
        let now = Instant::now();
        self.each(|trail, notes| {
            notes.began.get_or_insert(now);
            notes.runs = notes.runs.saturating_add(1);
            notes.given = (!trail.asked.arguments.is_same(&call.arguments)).then(|| call.arguments.clone());
        });
    }

    pub(super) fn identify(&self, principal: &Arc<Principal>) {
        self.each(|_, notes| notes.principal = Some(Arc::clone(principal)));
    }

    pub(super) fn trace(&self, trace: &TraceContext) {
        let id = trace.id();
        self.each(|_, notes| notes.trace = id);
    }

    pub(crate) fn decide(&self, decided: impl Fn() -> Decided) {
        self.each(|_, notes| notes.decided = Some(decided()));
    }
}

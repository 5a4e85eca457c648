//! Tells observers how a call ended, exactly once.

use std::{borrow::Cow, sync::Arc};

use super::{
    background::Telling,
    event::Ended,
    hook::{Act, Hook, Run},
    run,
    set::{CallRun, Set},
    when::Event,
};
use crate::model::{Outcome, ToolResponse};

impl Set {
    /// Tells observers: those that hear at once here, in order, and the others in the background.
    #[inline]
    pub(super) fn tell(self: &Arc<Self>, run: &CallRun, outcome: Outcome, response: Option<&ToolResponse>) {
        if self.observers.is_empty() {
            return;
        }
        let ended =
            Ended { call: Cow::Borrowed(&run.call), outcome, response: response.map(Cow::Borrowed), halted_by: run.halted().cloned() };
        let event = Event::of(outcome, run.halted().is_some());
        let mut later = Vec::new();
        for (number, hook) in self.observers.iter().enumerate() {
            let hears = hook.event == Event::OnFinish || Some(hook.event) == event;
            if !hears || !self.observes(run, number) {
                continue;
            }
            match &hook.act {
                Act::Observe(Run::Now(observe)) => told(hook, run::now(|| observe(&ended))),
                _ => later.push(number),
            }
        }
        if !later.is_empty() {
            self.tell_later(later, ended);
        }
    }

    #[cold]
    fn tell_later(self: &Arc<Self>, observers: Vec<usize>, ended: Ended<'_>) {
        let telling = Telling { set: Arc::clone(self), observers, ended: ended.into_owned() };
        self.background.begin(telling, self.limits);
    }
}

/// Tells one observer that takes its time.
pub(super) async fn tell_later(hook: &Hook, ended: &Ended<'static>) {
    if let Act::Observe(Run::Later(observe)) = &hook.act {
        told(hook, run::later(hook, || observe(ended.clone())).await);
    }
}

#[inline]
fn told<E>(hook: &Hook, observed: Result<Option<E>, E>)
where
    E: Into<crate::BoxError>,
{
    if let Some(error) = observed.unwrap_or_else(Some) {
        run::report(hook, &error.into(), "nothing changes");
    }
}

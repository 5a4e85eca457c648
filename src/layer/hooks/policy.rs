use std::{fmt, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};

use super::{
    about::About,
    event::{Asked, Place},
    hook::Hook,
    set::{CallRun, Set, Stop, Stopped},
    walk::Walk,
    when::Event,
};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    layer::around::{Ending, Policy, Site, Step},
    model::{Context, Outcome, Remark, ToolResponse},
    operation::{Reply, View},
    router::Catalog,
};

/// The policy of a [`HooksLayer`](super::HooksLayer).
pub struct Hooks(Arc<Set>);

/// What one request carries through the hooks.
pub struct Running(Kind);

#[allow(clippy::large_enum_variant, reason = "a box would cost each call an allocation")]
enum Kind {
    Call(CallRun),
    /// Who asked for a list, of what, and whether it has been gone through.
    List(Context, Option<Catalog>, bool),
}

impl Hooks {
    pub(super) fn new(set: Set) -> Self {
        Self(Arc::new(set))
    }

    #[inline]
    fn step(&self, asked: Asked<'_>, site: Site<'_>, about: About, remarks: Vec<Remark>, stopped: Option<Box<Stopped>>) -> Step<Running> {
        let set = &*self.0;
        match (asked, stopped) {
            (Asked::Call(_), None) if set.after.is_empty() && set.observers.is_empty() && remarks.is_empty() => Step::Pass,
            (Asked::Call(call), None) => Step::Continue(Running(Kind::Call(set.run_of(call, about, remarks)))),
            (Asked::List(list), None) if set.lists => {
                Step::Continue(Running(Kind::List(list.context.clone(), site.catalog.cloned(), false)))
            }
            (Asked::List(_), None) => Step::Pass,
            (asked, Some(stopped)) => self.stopped(&asked, about, remarks, *stopped),
        }
    }

    #[cold]
    fn stopped(&self, asked: &Asked<'_>, about: About, remarks: Vec<Remark>, stopped: Stopped) -> Step<Running> {
        let call = match (asked, &stopped.stop) {
            (Asked::Call(call), _) => call,
            (Asked::List(_), Stop::Refuse(refusal)) => return Step::Refuse(refusal.clone()),
            (Asked::List(_), Stop::Answer(_)) => return Step::Pass,
        };
        let mut run = self.0.run_of(call, about, remarks);
        let response = match stopped.stop {
            Stop::Answer(mut response) => {
                response.serve_by(stopped.by);
                response
            }
            Stop::Refuse(refusal) => {
                run.halt(stopped.by);
                ToolResponse::refused(refusal)
            }
        };
        Step::finish(Running(Kind::Call(run)), response)
    }
}

impl Policy for Hooks {
    type State = Running;

    const TOOL: bool = true;

    const WAITS: bool = true;

    #[inline]
    fn looks(&self) -> bool {
        self.0.looks
    }

    fn note(&self) -> Option<Note> {
        let set = &*self.0;
        let mut note = Note::new("hooks");
        let all = || set.inward.iter().chain(set.outward());
        for event in [
            Event::BeforeRequest,
            Event::AfterList,
            Event::Before,
            Event::After,
            Event::OnSuccess,
            Event::OnError,
            Event::OnDenied,
            Event::OnFinish,
        ] {
            let names: Vec<_> = all().filter(|hook| hook.event == event).map(Hook::name).collect();
            if names.is_empty() {
                continue;
            }
            note = match event {
                Event::BeforeRequest => note.duty(Duty::Decides),
                Event::AfterList => note.duty(Duty::Hides),
                Event::Before => note.duty(Duty::Decides).duty(Duty::RewritesArguments),
                Event::After => note.duty(Duty::ChangesResults),
                _ => note,
            };
            note = note.setting(event.as_str(), names.join(" "));
        }
        for hook in all() {
            if let Some(only) = &hook.only {
                note = note.selects(format!("hook {}", hook.name()), (**only).clone());
            }
        }
        let open: Vec<_> = all().filter(|hook| hook.fail_open).map(Hook::name).collect();
        Some(if open.is_empty() { note } else { note.setting("fail_open", open.join(" ")) })
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Running> {
        let Some(mut asked) = asked(request) else { return Step::Pass };
        let about = self.0.about(&asked, site.tool);
        if self.0.waits_inward(&asked, &about) {
            // All of them run after the wait has begun, in their order.
            return Step::Wait;
        }
        let mut remarks = Vec::new();
        let stopped = match self.0.inward_now(&mut asked, &Place::new(site), &about, &mut remarks, 0) {
            Walk::Through => None,
            Walk::Stopped(stopped) => Some(stopped),
            Walk::Waits(_) => return Step::Refuse(Refusal::internal("a hook waits that was not about this call")),
        };
        self.step(asked, site, about, remarks, stopped)
    }

    fn wait<'a>(&'a self, request: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step<Running>> {
        Box::pin(async move {
            let Some(mut asked) = asked(request) else { return Step::Pass };
            let about = self.0.about(&asked, site.tool);
            let mut unfinished = Unfinished(None);
            if let (Asked::Call(call), false) = (&asked, self.0.observers.is_empty()) {
                unfinished.0 = Some((Arc::clone(&self.0), self.0.run_of(call, about.clone(), Vec::new())));
            }
            let mut remarks = Vec::new();
            let stopped = self.0.inward(&mut asked, &Place::new(site), &about, &mut remarks).await.err();
            unfinished.0 = None;
            self.step(asked, site, about, remarks, stopped)
        })
    }

    #[inline]
    fn settles(&self, state: &Running) -> bool {
        match &state.0 {
            Kind::List(..) => self.0.lists_wait,
            Kind::Call(run) => run.waits,
        }
    }

    fn settle<'a>(&'a self, state: &'a mut Running, reply: Reply<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match (&mut state.0, reply) {
                (Kind::List(context, catalog, done), Reply::List(list)) => {
                    self.0.listed(list, context, catalog.as_ref()).await;
                    *done = true;
                }
                (Kind::Call(run), Reply::Call(response)) => {
                    self.0.outward_over(run, response).await;
                    run.settled = true;
                }
                _ => {}
            }
        })
    }

    #[inline]
    fn after(&self, mut state: Running, mut ending: Ending<'_>) {
        // Borrowed, since what a call carries is long, and moved already more often than one likes.
        match (&mut state.0, &mut ending) {
            (Kind::Call(run), Ending::Reply(Reply::Call(response))) => {
                if !run.settled {
                    self.0.outward_now(run, response);
                }
                if !self.0.observers.is_empty() {
                    self.0.tell(run, response.outcome(), Some(response));
                }
            }
            (Kind::Call(run), ending) => self.0.tell(run, ending.outcome(), None),
            (Kind::List(context, catalog, false), Ending::Reply(Reply::List(list))) => {
                // None of them takes its time: otherwise the list has been gone through.
                let _ = self.0.listed(list, context, catalog.as_ref()).now_or_never();
            }
            (Kind::List(..), _) => {}
        }
    }
}

const fn asked(request: View<'_>) -> Option<Asked<'_>> {
    match request {
        View::Call(call) => Some(Asked::Call(call)),
        View::List(list) => Some(Asked::List(list)),
        View::Describe(_) => None,
    }
}

/// A call whose hooks on the way in take their time. Observers hear of it too if it is dropped meanwhile.
struct Unfinished(Option<(Arc<Set>, CallRun)>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some((set, run)) = self.0.take() {
            set.tell(&run, Outcome::Cancelled, None);
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.note()).finish()
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

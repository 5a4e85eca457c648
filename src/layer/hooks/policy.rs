use std::{fmt, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};

use super::{
    event::Asked,
    hook::Hook,
    observe,
    set::{CallRun, Set, Stop},
    when::Event,
};
use crate::{
    describe::{Duty, Note},
    error::Refusal,
    layer::around::{Ending, Policy, Site, Step},
    model::{Context, Outcome, ToolCall, ToolResponse},
    operation::{Reply, View},
    router::Catalog,
};

/// The policy of a [`HooksLayer`](super::HooksLayer).
pub struct Hooks(Arc<Set>);

/// What one request carries through the hooks.
pub struct Running(Kind);

#[allow(clippy::large_enum_variant, reason = "a box would cost each call an allocation")]
enum Kind {
    List(Context, Option<Catalog>, bool),
    Call(CallRun, Told),
}

/// How far the observers of a call are.
enum Told {
    Nothing,
    /// Some of them take their time.
    Beginning(BoxFuture<'static, ()>),
    All,
}

impl Hooks {
    pub(super) fn new(hooks: &[Hook]) -> Self {
        Self(Arc::new(Set::new(hooks)))
    }

    #[inline]
    async fn step(&self, mut asked: Asked<'_>, site: Site<'_>) -> Step<Running> {
        let set = &*self.0;
        let mut remarks = Vec::new();
        let stopped = set.inward(&mut asked, site, &mut remarks).await;
        let call = match asked {
            Asked::Call(call) => call,
            Asked::List(list) => {
                return match stopped {
                    Err((_, Stop::Refuse(refusal))) => Step::Refuse(refusal),
                    _ if set.lists => Step::Continue(Running(Kind::List(list.context.clone(), site.catalog.cloned(), false))),
                    _ => Step::Pass,
                };
            }
        };
        if set.after.is_empty() && set.observers.is_empty() && remarks.is_empty() {
            return match stopped {
                Ok(()) => Step::Pass,
                Err((_, Stop::Refuse(refusal))) => Step::Refuse(refusal),
                Err((by, Stop::Answer(response))) => Step::answer(served(response, by)),
            };
        }
        let mut run = set.run_of(call.clone(), site.tool, remarks);
        match stopped {
            Ok(()) => Step::Continue(Running(Kind::Call(run, Told::Nothing))),
            Err((by, stop)) => {
                let response = match stop {
                    Stop::Answer(response) => served(response, by),
                    Stop::Refuse(refusal) => {
                        run.halted = Some(by);
                        ToolResponse::refused(refusal)
                    }
                };
                Step::finish(Running(Kind::Call(run, Told::Nothing)), response)
            }
        }
    }
}

fn served(mut response: ToolResponse, by: std::borrow::Cow<'static, str>) -> ToolResponse {
    response.serve_by(by);
    response
}

impl Policy for Hooks {
    type State = Running;

    const TOOL: bool = true;

    const WAITS: bool = true;

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
        let open: Vec<_> = all().filter(|hook| hook.fail_open).map(Hook::name).collect();
        Some(if open.is_empty() { note } else { note.setting("fail_open", open.join(" ")) })
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Running> {
        let Some(asked) = asked(request) else { return Step::Pass };
        if self.0.waits_inward(&asked, site.tool) {
            return Step::Wait;
        }
        // Nothing in it waits, so that one poll is all it takes.
        match self.step(asked, site).now_or_never() {
            Some(step) => step,
            None => Step::Refuse(Refusal::internal("a hook waited that does not wait")),
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, site: Site<'a>) -> BoxFuture<'a, Step<Running>> {
        Box::pin(async move {
            let Some(asked) = asked(request) else { return Step::Pass };
            let mut unfinished = Unfinished(None);
            if let (Asked::Call(call), false) = (&asked, self.0.observers.is_empty()) {
                unfinished.0 = Some((Arc::clone(&self.0), self.0.run_of(ToolCall::clone(call), site.tool, Vec::new())));
            }
            let step = self.step(asked, site).await;
            unfinished.0 = None;
            step
        })
    }

    #[inline]
    fn settles(&self, state: &Running) -> bool {
        match &state.0 {
            Kind::List(..) => self.0.lists_wait,
            Kind::Call(run, _) => run.waits,
        }
    }

    fn settle<'a>(&'a self, state: &'a mut Running, reply: Reply<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match (&mut state.0, reply) {
                (Kind::List(context, catalog, done), Reply::List(list)) => {
                    self.0.listed(list, context, catalog.as_ref()).await;
                    *done = true;
                }
                (Kind::Call(run, told), Reply::Call(response)) => {
                    self.0.outward_over(run, response).await;
                    *told = Told::Beginning(self.0.tell_in_order(run, response));
                    if let Told::Beginning(telling) = told {
                        telling.as_mut().await;
                    }
                    *told = Told::All;
                }
                _ => {}
            }
        })
    }

    #[inline]
    fn after(&self, state: Running, mut ending: Ending<'_>) {
        let (mut run, told) = match state.0 {
            Kind::Call(run, told) => (run, told),
            Kind::List(context, catalog, done) => {
                if let (false, Ending::Reply(Reply::List(list))) = (done, ending) {
                    let _ = self.0.listed(list, &context, catalog.as_ref()).now_or_never();
                }
                return;
            }
        };
        match told {
            Told::All => {}
            Told::Beginning(telling) => {
                observe::in_background(self.0.observers.iter().filter(|hook| hook.waits()).cloned(), telling);
            }
            Told::Nothing => {
                if let Ending::Reply(Reply::Call(response)) = &mut ending {
                    let _ = self.0.outward_over(&mut run, response).now_or_never();
                }
                let outcome = ending.outcome();
                let response = match &ending {
                    Ending::Reply(Reply::Call(response)) => Some(&**response),
                    _ => None,
                };
                self.0.tell(&run, outcome, response);
            }
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

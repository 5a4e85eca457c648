use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use smallvec::SmallVec;
use smol_str::SmolStr;
use tower_layer::Layer;

use super::{
    HeldSessions, NAME,
    handle::{Handle, Shown},
};
use crate::{
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    layer::around::{Policed, Policy, PolicyLayer, Site, Step},
    model::{ToolCall, owned::Owns},
    operation::View,
    select::ToolSelector,
    store::{Hold, HoldError, SessionGuard, SessionStore},
};

/// Resolves and holds sessions; see the [module](super).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct SessionLayer(SessionPolicy);

/// A service that resolves and holds sessions.
pub type Session<S> = Policed<S, SessionPolicy>;

/// What a call names by its handles stays as it is once they were resolved.
impl Owns for Vec<Handle> {
    fn changed(&self, was: &ToolCall, is: &ToolCall) -> Option<String> {
        self.iter().find(|handle| !handle.is_same(was, is)).map(|handle| handle.name.to_string())
    }
}

/// The policy of a [`SessionLayer`].
#[derive(Clone)]
pub struct SessionPolicy {
    store: Arc<dyn SessionStore>,
    handles: Arc<Vec<Handle>>,
    only: Option<ToolSelector>,
    open: bool,
    refresh: bool,
}

impl SessionLayer {
    /// Resolves the sessions of this store. Until a handle is named there are none to resolve.
    pub fn new(store: impl SessionStore) -> Self {
        Self(SessionPolicy { store: Arc::new(store), handles: Arc::default(), only: None, open: false, refresh: false })
    }

    /// Whether there is anything that would name a session.
    pub(crate) fn has_handles(&self) -> bool {
        !self.0.handles.is_empty()
    }

    /// A handle among the arguments. A call without it goes on; an empty text counts as none.
    pub fn argument(self, name: &str) -> Self {
        self.handle(Handle::argument(name, false))
    }

    /// A handle among the arguments that every call must have. Restrict the layer with [`only`](Self::only) where not all tools take it.
    pub fn required(self, name: &str) -> Self {
        self.handle(Handle::argument(name, true))
    }

    /// A handle that `find` takes from a call, wherever it stands: deeper in the arguments, or in the context. Further in it goes by
    /// `name`.
    pub fn extract(self, name: &str, find: impl Fn(&ToolCall) -> Option<String> + Send + Sync + 'static) -> Self {
        self.handle(Handle::closure(name, false, find))
    }

    /// As [`extract`](Self::extract), and every call must have it.
    pub fn extract_required(self, name: &str, find: impl Fn(&ToolCall) -> Option<String> + Send + Sync + 'static) -> Self {
        self.handle(Handle::closure(name, true, find))
    }

    fn handle(mut self, handle: Handle) -> Self {
        Arc::make_mut(&mut self.0.handles).push(handle);
        self
    }

    /// Requires that the sessions are open, and keeps them so for the call.
    pub const fn require_open(mut self) -> Self {
        self.0.open = true;
        self
    }

    /// Has the store look what others did to a session before it is checked.
    pub const fn refresh(mut self) -> Self {
        self.0.refresh = true;
        self
    }

    /// Is there for these tools only. A tool that is in no catalog, such as one that a fallback answers, is not among them.
    pub fn only(mut self, tools: ToolSelector) -> Self {
        self.0.only = Some(tools);
        self
    }
}

impl SessionLayer {
    pub(crate) fn into_policy(self) -> SessionPolicy {
        self.0
    }
}

impl<S> Layer<S> for SessionLayer {
    type Service = Session<S>;

    fn layer(&self, inner: S) -> Session<S> {
        PolicyLayer::new(self.0.clone()).layer(inner)
    }
}

impl SessionPolicy {
    fn own(&self, call: &mut ToolCall) {
        if !self.handles.is_empty() {
            call.context.own(Arc::clone(&self.handles) as Arc<dyn Owns>);
        }
    }

    /// The sessions that a call names, by handle.
    fn asked(&self, call: &ToolCall) -> Result<SmallVec<[(SmolStr, String); 2]>, Refusal> {
        let mut asked = SmallVec::new();
        for handle in self.handles.iter() {
            if let Some(id) = handle.id(call)? {
                asked.push((handle.name.clone(), id));
            }
        }
        Ok(asked)
    }

    async fn held(&self, call: &ToolCall) -> Result<SmallVec<[(SmolStr, SessionGuard); 2]>, Refusal> {
        let hold = Hold::new(call.context.principal()).open(self.open);
        let mut held = SmallVec::new();
        for (name, id) in self.asked(call)? {
            if self.refresh {
                self.store.refresh(&id).await.map_err(|error| Refusal::internal(error).with_by(NAME))?;
            }
            held.push((name, self.store.hold(&id, hold).await.map_err(|error| refusal(&id, error))?));
        }
        Ok(held)
    }
}

fn refusal(id: &str, error: HoldError) -> Refusal {
    let id = Shown(id);
    match error {
        HoldError::NotFound => Refusal::new(RefusalKind::SessionNotFound, format!("Session '{id}' not found.")),
        HoldError::Closed => Refusal::new(
            RefusalKind::SessionClosed,
            format!("Session '{id}' is closed and cannot be modified. Open a new session, or branch another."),
        ),
        HoldError::Failed(error) => Refusal::internal(error),
    }
    .with_by(NAME)
}

impl Policy for SessionPolicy {
    /// Holds the sessions until the call is over, whatever the tool does with its context.
    type State = HeldSessions;

    const TOOL: bool = true;
    const WAITS: bool = true;

    fn note(&self) -> Option<Note> {
        let handles: Vec<&str> = self.handles.iter().map(|handle| handle.name.as_str()).collect();
        let mut note = Note::new(NAME).duty(Duty::Decides).duty(Duty::GoesByCaller).setting("handles", handles.join(" "));
        if self.open {
            note = note.setting("open", true);
        }
        if let Some(only) = &self.only {
            note = note.selects("only", only.clone());
        }
        Some(note)
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<HeldSessions> {
        let View::Call(call) = request else { return Step::Pass };
        if self.only.as_ref().is_some_and(|only| !site.tool.is_some_and(|tool| only.matches(tool))) {
            return Step::Pass;
        }
        match self.asked(call) {
            // That it names none is settled too.
            Ok(asked) if asked.is_empty() => {
                self.own(call);
                Step::Pass
            }
            Ok(_) => Step::Wait,
            Err(refusal) => Step::Refuse(refusal),
        }
    }

    fn wait<'a>(&'a self, request: View<'a>, _: Site<'a>) -> BoxFuture<'a, Step<HeldSessions>> {
        Box::pin(async move {
            let View::Call(call) = request else { return Step::Pass };
            match self.held(call).await {
                Err(refusal) => Step::Refuse(refusal),
                Ok(held) => {
                    let held = HeldSessions::of(&call.context).and(held);
                    call.context.extensions_mut().insert(held.clone());
                    self.own(call);
                    Step::Continue(held)
                }
            }
        })
    }
}

impl fmt::Debug for SessionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPolicy").field("handles", &self.handles).field("open", &self.open).finish_non_exhaustive()
    }
}

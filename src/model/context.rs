use std::{any::Any, fmt, sync::Arc, time::Duration};

use http::Extensions;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::{CallId, Cancellation, Principal, Progress, RawObject, TraceContext, moment::Moment, owned::Owners, trail::Trail};

/// What every operation carries besides what it asks for: who asks, from where, until when, and what layers hand inward.
///
/// An empty context costs nothing; the first value that is set allocates once, and clones share it until one of them changes.
///
/// Faces fill it in, layers add to it, tools read it. Nothing in it comes from the arguments, so a model cannot write into it.
///
/// ```
/// use toolstack::model::{Context, Principal};
///
/// let context = Context::new().with_principal(Principal::new("ada").scope("admin"));
/// assert!(context.principal().has_scope("admin"));
/// assert!(Context::new().principal().is_anonymous());
/// ```
#[derive(Clone, Default)]
pub struct Context {
    deadline: Moment,
    started: Moment,
    rare: Option<Arc<Rare>>,
    /// For whoever observes from further out.
    trail: Option<Arc<Trail>>,
}

/// What many calls do not have.
#[derive(Clone, Default)]
struct Rare {
    principal: Option<Arc<Principal>>,
    vouched: Option<Seal>,
    session: Option<SmolStr>,
    cancellation: Option<Cancellation>,
    progress: Progress,
    trace: Option<TraceContext>,
    origin: Origin,
    parent: Option<CallId>,
    depth: u16,
    meta: RawObject,
    params: RawObject,
    resume: Option<Arc<Resume>>,
    reentry: Option<Arc<dyn Any + Send + Sync>>,
    extensions: Extensions,
    owners: Owners,
    traced: bool,
}

/// Tells one layer that vouches for principals from any other.
#[derive(Clone)]
pub(crate) struct Seal(Arc<()>);

impl Seal {
    pub(crate) fn new() -> Self {
        Self(Arc::new(()))
    }
}

/// Who came up with the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// A language model. The default, since it deserves the least trust.
    #[default]
    Model,
    /// A person, directly.
    Person,
    /// A program, for instance a tool that calls another tool.
    Program,
}

/// What a call brings back when it returns from [`InputRequired`](super::InputRequired).
///
/// Both fields come from the client. The state was sealed by whoever asked, and whoever asked checks the seal.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Resume {
    /// The state, exactly as it was handed out (`requestState`).
    pub state: Option<Box<str>>,
    /// The answers by the key of their request (`inputResponses`).
    pub answers: RawObject,
}

impl Resume {
    /// An answer to what was asked with this state.
    #[must_use]
    pub fn new(state: Option<Box<str>>, answers: RawObject) -> Self {
        Self { state, answers }
    }

    /// The answer to one request.
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<&RawValue> {
        self.answers.get_raw(key)
    }
}

impl Context {
    /// An empty context.
    #[must_use]
    pub const fn new() -> Self {
        Self { deadline: Moment::NONE, started: Moment::NONE, rare: None, trail: None }
    }

    fn rare(&self) -> &Rare {
        static NONE: std::sync::LazyLock<Rare> = std::sync::LazyLock::new(Rare::default);
        self.rare.as_deref().unwrap_or(&NONE)
    }

    fn rare_mut(&mut self) -> &mut Rare {
        Arc::make_mut(self.rare.get_or_insert_default())
    }

    /// Who asks; the [anonymous](Principal::anonymous) principal where nobody vouched for one.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        static NOBODY: std::sync::LazyLock<Principal> = std::sync::LazyLock::new(Principal::anonymous);
        self.rare.as_ref().and_then(|rare| rare.principal.as_deref()).unwrap_or(&NOBODY)
    }

    /// Sets who asks.
    pub fn set_principal(&mut self, principal: impl Into<Arc<Principal>>) {
        self.identify(principal.into()).vouched = None;
    }

    fn identify(&mut self, principal: Arc<Principal>) -> &mut Rare {
        if let Some(trail) = &self.trail {
            trail.identify(&principal);
        }
        let rare = self.rare_mut();
        rare.principal = Some(principal);
        rare
    }

    /// Sets who asks, on the word of the layer that has this seal. A call that the tool makes in turn keeps both.
    pub(crate) fn vouch(&mut self, principal: Arc<Principal>, seal: &Seal) {
        // Who only believes what was said keeps the word of whoever said it.
        let known = self.shared_principal().is_some_and(|known| Arc::ptr_eq(known, &principal));
        let rare = self.identify(principal);
        if !known || rare.vouched.is_none() {
            rare.vouched = Some(seal.clone());
        }
    }

    /// Whether the layer that has this seal said who asks.
    pub(crate) fn is_vouched_for(&self, seal: &Seal) -> bool {
        self.rare().vouched.as_ref().is_some_and(|vouched| Arc::ptr_eq(&vouched.0, &seal.0))
    }

    /// This context, with that principal.
    #[must_use]
    pub fn with_principal(mut self, principal: impl Into<Arc<Principal>>) -> Self {
        self.set_principal(principal);
        self
    }

    /// The conversation or transport session that the operation belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.rare().session.as_deref()
    }

    pub(crate) fn session_text(&self) -> Option<&SmolStr> {
        self.rare().session.as_ref()
    }

    /// This context, within that session.
    #[must_use]
    pub fn with_session(mut self, session: impl AsRef<str>) -> Self {
        self.rare_mut().session = Some(SmolStr::new(session));
        self
    }

    /// When the operation has to be answered at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.instant()
    }

    /// How long there is until the deadline; zero once it has passed.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Brings the deadline forward. A later one than there is changes nothing: nobody can give an operation more time than its caller.
    pub fn shorten_deadline(&mut self, deadline: Instant) {
        self.deadline = Moment::at(self.deadline().map_or(deadline, |old| old.min(deadline)));
    }

    /// This context, with a deadline no later than that.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.shorten_deadline(deadline);
        self
    }

    /// When the operation began. The clock is read once, by the first who asks; the layers further in see the same instant.
    pub fn started(&mut self) -> Instant {
        if let Some(started) = self.started.instant() {
            return started;
        }
        let now = Instant::now();
        self.started = Moment::at(now);
        now
    }

    /// Tells work that is not dropped with the call that nobody waits any more. Without one, this never happens.
    #[must_use]
    pub fn cancellation(&self) -> Option<&Cancellation> {
        self.rare().cancellation.as_ref()
    }

    /// This context, cancelled by that.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: Cancellation) -> Self {
        self.rare_mut().cancellation = Some(cancellation);
        self
    }

    /// Where the tool reports how far it has come.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.rare().progress
    }

    /// This context, with progress going there.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.rare_mut().progress = progress;
        self
    }

    /// The distributed trace that the operation is part of.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.rare().trace.as_ref()
    }

    /// This context, within that trace.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.set_trace(trace);
        self
    }

    /// Who came up with the operation.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.rare.as_ref().map_or(Origin::Model, |rare| rare.origin)
    }

    /// This context, from that origin.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.rare_mut().origin = origin;
        self
    }

    /// The call whose tool made this one.
    #[must_use]
    pub fn parent(&self) -> Option<&CallId> {
        self.rare().parent.as_ref()
    }

    /// How many calls this one stands inside: zero for a call from outside.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.rare.as_ref().map_or(0, |rare| rare.depth)
    }

    /// `_meta` of the request, as the client sent it.
    #[must_use]
    pub fn meta(&self) -> &RawObject {
        &self.rare().meta
    }

    /// `_meta` of the request, to change.
    pub fn meta_mut(&mut self) -> &mut RawObject {
        &mut self.rare_mut().meta
    }

    /// Parameters of the request that this crate does not know.
    #[must_use]
    pub fn params(&self) -> &RawObject {
        &self.rare().params
    }

    pub(crate) fn set_params(&mut self, params: RawObject) {
        self.rare_mut().params = params;
    }

    /// What the operation brings back, where it answers an [`InputRequired`](super::InputRequired).
    #[must_use]
    pub fn resume(&self) -> Option<&Resume> {
        self.rare().resume.as_deref()
    }

    /// This context, bringing back these answers.
    #[must_use]
    pub fn with_resume(mut self, resume: Resume) -> Self {
        self.rare_mut().resume = Some(Arc::new(resume));
        self
    }

    pub(crate) fn set_resume(&mut self, resume: Option<Resume>) {
        self.rare_mut().resume = resume.map(Arc::new);
    }

    pub(crate) fn shared_principal(&self) -> Option<&Arc<Principal>> {
        self.rare.as_ref()?.principal.as_ref()
    }

    /// Values that layers and faces hand inward, by type. They belong to this one operation: a call that a tool makes starts without.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.rare().extensions
    }

    /// The values to hand inward, to change.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.rare_mut().extensions
    }

    pub(super) fn owners(&self) -> &Owners {
        &self.rare().owners
    }

    pub(super) fn owners_mut(&mut self) -> &mut Owners {
        &mut self.rare_mut().owners
    }

    pub(crate) const fn trail(&self) -> Option<&Arc<Trail>> {
        self.trail.as_ref()
    }

    pub(crate) const fn take_trail(&mut self) -> Option<Arc<Trail>> {
        self.trail.take()
    }

    /// Has what happens from here on noted there.
    pub(crate) fn follow(&mut self, trail: Arc<Trail>) {
        self.trail = Some(trail);
    }

    /// Whether there is a span of this operation already.
    pub(crate) fn is_traced(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.traced)
    }

    pub(crate) fn set_traced(&mut self) {
        self.rare_mut().traced = true;
    }

    /// Puts the operation into another trace.
    pub fn set_trace(&mut self, trace: TraceContext) {
        if let Some(trail) = &self.trail {
            trail.trace(&trace);
        }
        self.rare_mut().trace = Some(trace);
    }

    /// The way back into the stack that the operation came through.
    pub(crate) fn reentry<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::downcast(Arc::clone(self.rare().reentry.as_ref()?)).ok()
    }

    pub(crate) fn set_reentry<T: Any + Send + Sync>(&mut self, reentry: Arc<T>) {
        self.rare_mut().reentry = Some(reentry);
    }

    /// The context of a call that the tool of call `parent` makes: the same principal, session, trace, deadline and cancellation, one
    /// level deeper, made by a program, without what belongs to the one operation alone.
    pub(crate) fn within(&self, parent: &CallId) -> Self {
        let rare = self.rare();
        Self {
            deadline: self.deadline,
            started: Moment::NONE,
            trail: None,
            rare: Some(Arc::new(Rare {
                principal: rare.principal.clone(),
                vouched: rare.vouched.clone(),
                session: rare.session.clone(),
                cancellation: rare.cancellation.clone(),
                progress: rare.progress.signs_of_life(),
                trace: rare.trace.clone(),
                origin: Origin::Program,
                parent: Some(parent.clone()),
                depth: rare.depth.saturating_add(1),
                meta: RawObject::new(),
                params: RawObject::new(),
                resume: None,
                reentry: rare.reentry.clone(),
                extensions: Extensions::new(),
                owners: Owners::new(),
                traced: false,
            })),
        }
    }
}

impl fmt::Debug for Context {
    /// Who and where, and no value that might be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Context");
        out.field("deadline", &self.deadline);
        if let Some(rare) = &self.rare {
            out.field("principal", &rare.principal.as_ref().map(|p| &p.subject))
                .field("session", &rare.session.as_ref().map(|_| ".."))
                .field("origin", &rare.origin)
                .field("parent", &rare.parent)
                .field("depth", &rare.depth)
                .field("meta", &rare.meta)
                .field("resume", &rare.resume);
        }
        out.finish_non_exhaustive()
    }
}

impl fmt::Debug for Resume {
    /// The keys of the answers only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resume").field("state", &self.state.as_ref().map(|_| "..")).field("answers", &self.answers).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_can_only_come_nearer() {
        let soon = Instant::now() + Duration::from_secs(1);
        let late = soon + Duration::from_secs(60);
        let mut context = Context::new().with_deadline(late);
        context.shorten_deadline(soon);
        context.shorten_deadline(late);
        assert_eq!(context.deadline(), Some(soon));
    }

    #[test]
    fn a_clone_that_changes_leaves_the_other_as_it_was() {
        let one = Context::new().with_session("s");
        let two = one.clone().with_principal(Principal::new("ada"));
        assert!(one.principal().is_anonymous());
        assert_eq!((two.principal().subject.as_str(), two.session()), ("ada", Some("s")));
    }

    #[test]
    fn a_call_within_a_call_inherits_who_but_not_what_belongs_to_the_one_operation() {
        let mut outer = Context::new().with_principal(Principal::new("ada")).with_origin(Origin::Person);
        outer.extensions_mut().insert(7_u8);
        let inner = outer.within(&CallId::from("c1"));
        assert_eq!(inner.principal().subject, "ada");
        assert_eq!((inner.depth(), inner.parent(), inner.origin()), (1, Some(&CallId::from("c1")), Origin::Program));
        assert_eq!(inner.extensions().get::<u8>(), None);
    }

    #[test]
    fn debug_shows_no_value() {
        let mut context = Context::new().with_session("s3cret").with_resume(Resume::new(Some("s3cret".into()), RawObject::new()));
        context.meta_mut().insert("token", "s3cret").unwrap();
        assert!(!format!("{context:?}").contains("s3cret"));
    }
}

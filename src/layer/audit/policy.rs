use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use smallvec::SmallVec;
use smol_str::SmolStr;
use tokio::time::Instant;

use super::{
    AuditDecision, AuditEnding, AuditLayer, AuditPrincipal, AuditRecord, Label,
    asked::{Asked, Called},
    digest::Digester,
    layer::Settings,
    size::response_bytes,
};
use crate::{
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    layer::around::{Ending, Policy, Site, Step},
    model::{Arguments, Context, ListTools, ToolCall, ToolResponse, trail::Trail},
    operation::{Operation, Reply, View},
};

/// The policy of an [`AuditLayer`].
pub struct AuditPolicy {
    settings: Settings,
    digester: Digester,
    stream: u64,
    next: AtomicU64,
}

/// An operation that is running.
#[doc(hidden)]
pub struct Started(Arc<Trail>);

const NAME: &str = "audit";

impl AuditPolicy {
    pub(super) fn new(settings: Settings) -> Self {
        let digester = Digester::new(settings.key.as_ref());
        Self { settings, digester, stream: drawn(), next: AtomicU64::new(0) }
    }

    fn call(&self, call: &mut ToolCall, site: Site<'_>) -> Started {
        let called = Called {
            id: call.id.clone(),
            tool: call.name().clone(),
            fingerprint: site.tool.map(|tool| tool.fingerprint()),
            source: site.tool.map(|tool| match &tool.source().name {
                Cow::Borrowed(name) => SmolStr::new_static(name),
                Cow::Owned(name) => SmolStr::new(name),
            }),
            digest: self.digester.digest(&call.arguments),
        };
        Started::new(ToolCall::NAME, &mut call.context, Some(called), call.arguments.clone())
    }

    /// Keeps a place in each sink. Where one has none, a refusal is recorded wherever there is a place, and lost and counted elsewhere.
    fn reserve(&self, started: Started) -> Step<Started> {
        let kept: SmallVec<[bool; 8]> = self.settings.sinks.iter().map(|sink| self.caught(|| sink.reserve()).unwrap_or(false)).collect();
        if kept.contains(&false) { self.unrecorded(started, &kept) } else { Step::Continue(started) }
    }

    #[cold]
    fn unrecorded(&self, started: Started, kept: &[bool]) -> Step<Started> {
        let refusal =
            Refusal::new(RefusalKind::Overloaded, "This was not run, since no record of it can be kept at the moment.").with_by(NAME);
        let mut response = ToolResponse::refused(refusal.clone());
        let record = self.finished(started, Ending::Reply(Reply::Call(&mut response)));
        self.deliver(record, |at| kept.get(at).is_some_and(|kept| *kept));
        Step::Refuse(refusal)
    }

    /// Hands the record to each sink, and to the last one for good.
    fn deliver(&self, record: AuditRecord, reserved: impl Fn(usize) -> bool) {
        let Some((last, others)) = self.settings.sinks.split_last() else { return };
        for (at, sink) in others.iter().enumerate() {
            self.caught(|| if reserved(at) { sink.record_reserved(&record) } else { sink.record(&record) });
        }
        self.caught(|| last.take(record, reserved(others.len())));
    }

    /// What a sink does, which may panic.
    fn caught<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work));
        if done.is_err() {
            self.settings.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!("audit: a sink panicked over a record");
        }
        done.ok()
    }

    /// The record, complete.
    fn finished(&self, started: Started, ending: Ending<'_>) -> AuditRecord {
        let Started(trail) = started;
        let asked = trail.asked();
        let mut record = asked.record(self.stream, self.next.fetch_add(1, Ordering::Relaxed));
        let ended = Instant::now();
        let mut notes = trail.notes();
        record.total = ended.saturating_duration_since(asked.started);
        if let Some(began) = notes.began {
            record.waiting = Some(began.saturating_duration_since(asked.started));
            record.running = Some(ended.saturating_duration_since(began));
        }
        record.attempts = notes.runs;
        record.trace_id = notes.trace.or(record.trace_id);
        let found = notes.principal.take();
        if let Some(principal) = &found {
            record.principal = AuditPrincipal::of(principal);
        }
        record.decision = notes.decided.take().map(|decided| AuditDecision {
            effect: decided.effect,
            by: Label::word(decided.by),
            id: decided.id.as_ref().map(Label::of),
            enforced: decided.enforced,
        });
        let given = notes.given.take();
        drop(notes);
        record.effective_digest = given.as_ref().map(|given| self.digester.digest(given));
        if let (Some(redactor), Some(_)) = (&self.settings.redactor, &asked.call) {
            let shown = self.caught(|| redactor.arguments(given.as_ref().unwrap_or(&asked.arguments)));
            let text = shown.as_ref().and_then(|shown| shown.as_json().ok());
            record.arguments = text.filter(|text| text.len() <= AuditLayer::MAX_ARGUMENTS).map(Box::from);
        }
        ended_by(&mut record, ending);
        if found.is_none() && record.refusal == Some(RefusalKind::Unauthenticated) {
            // What the context claimed, nobody vouched for.
            record.principal = None;
        }
        record
    }
}

fn ended_by(record: &mut AuditRecord, ending: Ending<'_>) {
    record.outcome = ending.outcome();
    record.is_error = record.outcome.is_error();
    let refusal = match ending {
        Ending::Dropped => return record.ending = AuditEnding::Dropped,
        Ending::Panicked => return record.ending = AuditEnding::Panicked,
        Ending::Failed(kind) => {
            record.refusal = Some(kind);
            return record.ending = AuditEnding::Failed;
        }
        Ending::Reply(Reply::Call(response)) => {
            record.result_bytes = Some(response_bytes(response));
            record.by = response.result().and_then(|result| result.served_by()).map(Label::new);
            // What a tool says of itself is its answer.
            let refusal = response.refusal().filter(|refusal| refusal.kind() != RefusalKind::ToolError);
            refusal.map(|refusal| (refusal.kind(), Label::new(refusal.by())))
        }
        Ending::Reply(Reply::List(list)) => {
            if list.refusal().is_none() {
                record.tools = u64::try_from(list.tools().len()).ok();
            }
            list.refusal().map(|refusal| (refusal.kind(), Label::new(refusal.by())))
        }
        Ending::Reply(Reply::Describe(_)) => None,
    };
    record.ending = if refusal.is_some() { AuditEnding::Refused } else { AuditEnding::Answered };
    if let Some((kind, by)) = refusal {
        (record.refusal, record.by) = (Some(kind), Some(by));
    }
}

/// A number that no other stream has.
fn drawn() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        // Better than none.
        Err(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
    }
}

impl Policy for AuditPolicy {
    type State = Started;

    const OBSERVES: bool = true;

    fn note(&self) -> Option<Note> {
        let Settings { sinks, required, key, redactor, .. } = &self.settings;
        let names: Vec<_> = sinks.iter().map(|sink| sink.name()).collect();
        let mut note = Note::new(NAME).duty(Duty::Observes).setting("to", names.join(" "));
        for (name, set) in [("required", *required), ("keyed", key.is_some()), ("arguments", redactor.is_some())] {
            if set {
                note = note.setting(name, true);
            }
        }
        Some(note)
    }

    #[inline]
    fn before(&self, request: View<'_>, site: Site<'_>) -> Step<Started> {
        let started = match request {
            View::Call(call) => self.call(call, site),
            View::List(list) => Started::new(ListTools::NAME, &mut list.context, None, Arguments::empty()),
            View::Describe(_) => return Step::Pass,
        };
        if self.settings.required { self.reserve(started) } else { Step::Continue(started) }
    }

    fn after(&self, started: Started, ending: Ending<'_>) {
        let record = self.finished(started, ending);
        self.deliver(record, |_| self.settings.required);
    }
}

impl Started {
    /// Follows the operation from here on.
    fn new(operation: &'static str, context: &mut Context, call: Option<Called>, arguments: Arguments) -> Self {
        let asked = Asked::new(operation, context, call, arguments);
        let trail = Trail::new(context.trail().cloned(), asked);
        context.follow(Arc::clone(&trail));
        Self(trail)
    }
}

impl fmt::Debug for AuditPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditPolicy").field(&self.settings).finish()
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

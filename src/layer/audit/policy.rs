use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use smallvec::SmallVec;
use tokio::time::Instant;

use super::{
    AuditDecision, AuditEnding, AuditLayer, AuditPrincipal, AuditRecord, AuditSink, Label, digest::Digester, label::cut, layer::Settings,
    size::response_bytes,
};
use crate::{
    describe::{Duty, Note},
    error::{Refusal, RefusalKind},
    layer::around::{Ending, Policy, Site, Step},
    model::{Arguments, Context, ListTools, Outcome, ToolCall, ToolResponse, trail::Trail},
    operation::{Operation, Reply, View},
};

/// The policy of an [`AuditLayer`].
pub struct AuditPolicy {
    settings: Settings,
    digester: Digester,
    stream: u64,
    next: AtomicU64,
}

/// What is known of an operation that is running.
#[doc(hidden)]
pub struct Started {
    record: AuditRecord,
    started: Instant,
    trail: Arc<Trail>,
}

const NAME: &str = "audit";

impl AuditPolicy {
    pub(super) fn new(settings: Settings) -> Self {
        let digester = Digester::new(settings.key.as_ref());
        Self { settings, digester, stream: drawn(), next: AtomicU64::new(0) }
    }

    fn started(&self, operation: &'static str, context: &mut Context, arguments: Arguments) -> Started {
        let started = context.started();
        let trail = Trail::new(context.trail().cloned(), arguments);
        context.follow(Arc::clone(&trail));
        let record = AuditRecord {
            stream: self.stream,
            sequence: 0,
            operation: Label::new(operation),
            time: SystemTime::now(),
            total: Duration::ZERO,
            waiting: None,
            running: None,
            principal: context.shared_principal().and_then(AuditPrincipal::of),
            session: context.session().map(Label::new),
            origin: context.origin(),
            call: None,
            parent: context.parent().map(|id| id.cut(cut)),
            depth: context.depth(),
            tool: None,
            fingerprint: None,
            source: None,
            arguments_digest: None,
            effective_digest: None,
            arguments: None,
            decision: None,
            ending: AuditEnding::Dropped,
            outcome: Outcome::Cancelled,
            refusal: None,
            by: None,
            is_error: false,
            result_bytes: None,
            tools: None,
            attempts: 0,
            trace_id: context.trace().and_then(|trace| trace.id()),
        };
        Started { record, started, trail }
    }

    fn call(&self, call: &mut ToolCall, site: Site<'_>) -> Started {
        let mut started = self.started(ToolCall::NAME, &mut call.context, call.arguments.clone());
        let record = &mut started.record;
        record.call = Some(call.id.cut(cut));
        record.tool = Some(Label::new(call.name()));
        record.fingerprint = site.tool.map(|tool| tool.fingerprint());
        record.source = site.tool.map(|tool| Label::new(&tool.source().name));
        record.arguments_digest = Some(self.digester.digest(&call.arguments));
        started
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
        for (sink, kept) in self.settings.sinks.iter().zip(kept) {
            self.deliver(&**sink, &record, *kept);
        }
        Step::Refuse(refusal)
    }

    fn deliver(&self, sink: &dyn AuditSink, record: &AuditRecord, reserved: bool) {
        self.caught(|| if reserved { sink.record_reserved(record) } else { sink.record(record) });
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
        let Started { mut record, started, trail } = started;
        let ended = Instant::now();
        let mut notes = trail.notes();
        record.total = ended.saturating_duration_since(started);
        if let Some(began) = notes.began {
            record.waiting = Some(began.saturating_duration_since(started));
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
            by: Label::new(decided.by),
            id: decided.id.map(Label::new),
            enforced: decided.enforced,
        });
        let given = notes.given.take();
        drop(notes);
        record.effective_digest = given.as_ref().map(|given| self.digester.digest(given));
        if let (Some(redactor), Some(_)) = (&self.settings.redactor, &record.arguments_digest) {
            let shown = self.caught(|| redactor.arguments(given.as_ref().unwrap_or_else(|| trail.asked())));
            let text = shown.as_ref().and_then(|shown| shown.as_json().ok());
            record.arguments = text.filter(|text| text.len() <= AuditLayer::MAX_ARGUMENTS).map(Box::from);
        }
        ended_by(&mut record, ending);
        if found.is_none() && record.refusal == Some(RefusalKind::Unauthenticated) {
            // What the context claimed, nobody vouched for.
            record.principal = None;
        }
        record.sequence = self.next.fetch_add(1, Ordering::Relaxed);
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
            View::List(list) => self.started(ListTools::NAME, &mut list.context, Arguments::empty()),
            View::Describe(_) => return Step::Pass,
        };
        if self.settings.required { self.reserve(started) } else { Step::Continue(started) }
    }

    fn after(&self, started: Started, ending: Ending<'_>) {
        let record = self.finished(started, ending);
        for sink in &self.settings.sinks {
            self.deliver(&**sink, &record, self.settings.required);
        }
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

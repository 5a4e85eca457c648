use super::Severity;
use crate::describe::{Duty, Note};

/// A rule about two layers in an order that is wrong.
pub(super) struct Pair {
    pub(super) rule: &'static str,
    pub(super) severity: Severity,
    pub(super) outer: fn(&Note) -> bool,
    pub(super) inner: fn(&Note) -> bool,
    /// What else has to hold of the two.
    pub(super) both: fn(&Note, &Note) -> bool,
    /// What, standing between the two, makes it right again.
    pub(super) unless_between: fn(&Note) -> bool,
    /// What, standing outside both, makes it right again.
    pub(super) unless_outside: fn(&Note) -> bool,
    /// Whether it holds too for a layer of the stack and one of a tool's own, which the stack drives to ready within the call.
    pub(super) across: bool,
    pub(super) why: &'static str,
    pub(super) help: &'static str,
}

impl Pair {
    const NONE: Self = Self {
        rule: "",
        severity: Severity::Warning,
        outer: |_| false,
        inner: |_| false,
        both: |_, _| true,
        unless_between: |_| false,
        unless_outside: |_| false,
        across: true,
        why: "",
        help: "",
    };
}

/// Whether a layer of another crate may fail with an error.
fn may_fail(note: &Note) -> bool {
    let duties = [Duty::Times, Duty::Sheds, Duty::Queues, Duty::Decides];
    note.is_foreign() && duties.into_iter().any(|duty| note.has(duty))
}

/// Whether a layer runs code of its user.
fn may_panic(note: &Note) -> bool {
    let duties =
        [Duty::Answers, Duty::ChangesResults, Duty::Decides, Duty::Hides, Duty::Identifies, Duty::Repeats, Duty::Rewrites, Duty::Waits];
    duties.into_iter().any(|duty| note.has(duty))
}

pub(super) const PAIRS: &[Pair] = &[
    Pair {
        rule: "rewrite-after-decision",
        severity: Severity::Error,
        // Visibility judges the name alone, and the router runs no other tool than the one that it judged.
        outer: |note| note.has(Duty::Decides),
        inner: |note| note.has(Duty::Rewrites),
        // Hooks stand outside what pins, since they rewrite too.
        both: |outer, inner| !(outer.has(Duty::RewritesArguments) && inner.has(Duty::Pins)),
        why: "the call is changed after it was judged, so what runs is not what was allowed.",
        help: "Put what changes calls outside what judges them.",
        ..Pair::NONE
    },
    Pair {
        rule: "answer-before-decision",
        severity: Severity::Error,
        outer: |note| note.has(Duty::Answers),
        inner: |note| [Duty::Decides, Duty::DecidesByTool, Duty::Hides, Duty::Identifies].into_iter().any(|duty| note.has(duty)),
        why: "what the outer layer answers in the tool's place, the inner one is not asked about.",
        help: "Put what answers in the tool's place inside what decides.",
        ..Pair::NONE
    },
    Pair {
        rule: "rewrite-after-decision",
        severity: Severity::Error,
        // Hooks do both, one after the other, and so do two layers of them.
        outer: |note| note.has(Duty::Decides) && !note.has(Duty::RewritesArguments),
        inner: |note| note.has(Duty::RewritesArguments),
        why: "the arguments are changed after they were judged, so what runs is not what was allowed.",
        help: "Put what changes calls outside what judges them.",
        ..Pair::NONE
    },
    Pair {
        rule: "rewrite-after-pin",
        severity: Severity::Error,
        outer: |note| note.has(Duty::Pins),
        // Repair puts right what is there, and what is pinned is.
        inner: |note| {
            (note.has(Duty::Rewrites) || note.has(Duty::RewritesArguments)) && !note.has(Duty::Pins) && !note.has(Duty::Validates)
        },
        why: "an argument that the caller may not choose can be changed after it was set.",
        help: "Put what changes arguments outside what pins them.",
        ..Pair::NONE
    },
    Pair {
        rule: "decision-before-visibility",
        severity: Severity::Error,
        outer: |note| (note.has(Duty::Decides) || note.has(Duty::DecidesByTool)) && !note.is_foreign(),
        inner: |note| note.has(Duty::Hides),
        why: "a hidden tool is refused with a reason, which tells that it exists.",
        help: "Put visibility outside what decides.",
        ..Pair::NONE
    },
    Pair {
        rule: "caller-before-identity",
        severity: Severity::Error,
        outer: |note| note.has(Duty::GoesByCaller) || note.has(Duty::Hides),
        inner: |note| note.has(Duty::Identifies),
        unless_outside: |note| note.has(Duty::Identifies),
        why: "it goes by who asks before that was found out.",
        help: "Put what finds out who asks outside what goes by it.",
        ..Pair::NONE
    },
    Pair {
        rule: "step-up-before-validation",
        outer: |note| note.has(Duty::StepsUp),
        inner: |note| note.has(Duty::Validates),
        unless_outside: |note| note.has(Duty::Validates),
        why: "a caller is asked to sign in again for calls that cannot run.",
        help: "Put validation outside step-up.",
        ..Pair::NONE
    },
    Pair {
        rule: "ask-before-step-up",
        outer: |note| note.has(Duty::Asks),
        inner: |note| note.has(Duty::StepsUp),
        why: "a person is asked about calls that the caller's sign-in is too weak for.",
        help: "Put step-up outside what asks.",
        ..Pair::NONE
    },
    Pair {
        rule: "ask-before-validation",
        outer: |note| note.has(Duty::Asks),
        inner: |note| note.has(Duty::Validates),
        unless_between: |note| note.has(Duty::Rewrites),
        // The inner one is for what an approver edits.
        unless_outside: |note| note.has(Duty::Validates),
        why: "a person is asked about calls that cannot run.",
        help: "Put validation outside what asks.",
        ..Pair::NONE
    },
    Pair {
        rule: "allow-all-outside-ask",
        outer: |note| note.has(Duty::AllowsAll),
        inner: |note| note.has(Duty::Asks) || note.has(Duty::LacksApprover),
        why: "the outer layer allows everything, which does not keep the inner one from asking: the stricter one counts.",
        help: "Leave one of the two out.",
        ..Pair::NONE
    },
    Pair {
        rule: "error-escapes",
        outer: may_fail,
        inner: |note| note.has(Duty::CatchesErrors),
        unless_outside: |note| note.has(Duty::CatchesErrors),
        across: false,
        why: "the outer layer fails with an error, which the inner one cannot catch.",
        help: "Put catch_error outside every layer that may fail.",
        ..Pair::NONE
    },
    Pair {
        rule: "panic-escapes",
        outer: may_panic,
        inner: |note| note.has(Duty::CatchesPanics),
        unless_between: |note| note.has(Duty::Queues),
        unless_outside: |note| note.has(Duty::CatchesPanics),
        across: false,
        why: "a panic of the outer layer passes by the inner one.",
        help: "Put catch_panic outermost.",
        ..Pair::NONE
    },
    Pair {
        rule: "timeout-without-queue",
        outer: |note| note.is_foreign() && note.has(Duty::Times),
        inner: |note| note.has(Duty::Limits),
        unless_between: |note| note.has(Duty::Sheds) || note.has(Duty::Queues) || note.is_ready_at_once() == Some(true),
        unless_outside: |note| note.has(Duty::Sheds) || (note.has(Duty::Times) && !note.is_foreign()),
        across: false,
        why: "tower's timeout starts once a permit is there, so the wait for one has no bound.",
        help: "Use toolstack's timeout, which counts the wait, or put load_shed between the two.",
        ..Pair::NONE
    },
    Pair {
        rule: "limit-before-timeout",
        outer: |note| note.has(Duty::Limits),
        inner: |note| note.has(Duty::Times),
        unless_outside: |note| note.has(Duty::Times) || note.has(Duty::Sheds),
        across: false,
        why: "the timeout starts once the limit lets the call in, so the wait for that has no bound.",
        help: "Put the timeout outside the limit, or load_shed directly outside the limit.",
        ..Pair::NONE
    },
    Pair {
        rule: "timeout-never-reached",
        outer: |note| note.latest_end().is_some(),
        inner: |note| note.earliest_end().is_some(),
        both: |outer, inner| inner.earliest_end() > outer.latest_end(),
        why: "the outer timeout ends a call before the inner one could.",
        help: "Give the outer timeout more time than the inner one.",
        ..Pair::NONE
    },
    Pair {
        rule: "wait-on-the-clock",
        outer: |note| note.has(Duty::Times),
        inner: |note| note.has(Duty::Waits),
        why: "the time that the inner layer waits, for a person perhaps, counts as the tool's.",
        help: "Put the timeout inside what waits.",
        ..Pair::NONE
    },
    Pair {
        rule: "wait-within-limit",
        outer: |note| note.has(Duty::Limits),
        inner: |note| note.has(Duty::Waits),
        why: "a call that only waits, for a person perhaps, takes up room under the outer limit.",
        help: "Put the limit inside what waits.",
        ..Pair::NONE
    },
    Pair {
        rule: "wait-repeated",
        outer: |note| note.has(Duty::Repeats),
        inner: |note| note.has(Duty::Waits),
        why: "each attempt waits, and asks again where it asks a person.",
        help: "Put the retry inside what waits.",
        ..Pair::NONE
    },
    Pair {
        rule: "credential-before-decision",
        outer: |note| note.has(Duty::FetchesCredentials),
        // What waits is named already, since it would ask twice.
        inner: |note| note.has(Duty::Decides) && !note.has(Duty::Waits),
        why: "a call that is made once more with its credential is judged twice, and what was allowed once is not allowed again.",
        help: "Put the challenge layer inside what decides.",
        ..Pair::NONE
    },
    Pair {
        rule: "change-after-redaction",
        outer: |note| note.has(Duty::ChangesResults) && !note.has(Duty::Redacts),
        inner: |note| note.has(Duty::Redacts),
        why: "what the outer layer adds to a result is not redacted, and what it judges was.",
        help: "Put redaction outside what else changes results.",
        ..Pair::NONE
    },
    Pair {
        rule: "refused-unseen",
        outer: |note| {
            let duties = [Duty::Decides, Duty::DecidesByTool, Duty::Hides, Duty::Identifies, Duty::Limits];
            duties.into_iter().any(|duty| note.has(duty))
        },
        inner: |note| note.has(Duty::Observes),
        // What stands outside, sees it all; another one further in may look at what runs.
        unless_outside: |note| note.has(Duty::Observes),
        why: "what the outer layer refuses, the inner one never sees.",
        help: "Put what observes outside what refuses.",
        ..Pair::NONE
    },
    Pair {
        rule: "rewritten-unseen",
        outer: |note| note.has(Duty::Rewrites) || note.has(Duty::RewritesArguments) || note.has(Duty::Pins),
        inner: |note| note.has(Duty::Observes),
        // What decides too has a fault of its own.
        both: |outer, _| !outer.has(Duty::Decides),
        unless_outside: |note| note.has(Duty::Observes),
        why: "the inner one sees what the outer one made of the call, and not what was asked.",
        help: "Put what observes outside what changes calls.",
        ..Pair::NONE
    },
    Pair {
        rule: "results-before-retry",
        outer: |note| note.has(Duty::Repeats),
        inner: |note| note.has(Duty::CatchesErrors),
        unless_between: |note| may_fail(note) || (note.is_foreign() && note.duties().is_empty()),
        across: false,
        why: "what is within never fails, so there is nothing to repeat.",
        help: "Put catch_error outside the retry.",
        ..Pair::NONE
    },
];

use std::fmt;

use serde::Serialize;

use super::{Description, Duty, Note};

/// Something that is wrong with the order of a stack's layers.
///
/// `Display` says which layers, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fault {
    /// A word for the rule that is broken.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The layers that it is about, outermost first.
    pub layers: Vec<String>,
    /// The tool among whose own layers it is; `None` for the stack.
    pub tool: Option<String>,
    /// What goes wrong.
    pub why: &'static str,
    /// What to do.
    pub help: &'static str,
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// It does less than it seems to.
    Warning,
    /// It lets something through, or breaks.
    Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.rule)?;
        if let Some(tool) = &self.tool {
            write!(f, "in the tool {tool}: ")?;
        }
        write!(f, "{}: {} {}", self.layers.join(" outside "), self.why, self.help)
    }
}

/// A rule about two layers in an order that is wrong.
struct Pair {
    rule: &'static str,
    severity: Severity,
    outer: fn(&Note) -> bool,
    inner: fn(&Note) -> bool,
    /// What, standing between the two, makes it right again.
    unless: fn(&Note) -> bool,
    why: &'static str,
    help: &'static str,
}

const PAIRS: &[Pair] = &[
    Pair {
        rule: "rewrite-after-decision",
        severity: Severity::Error,
        outer: |note| note.has(Duty::Decides) || note.has(Duty::Hides),
        inner: |note| note.has(Duty::Rewrites),
        unless: |_| false,
        why: "the call is changed after it was judged, so what runs is not what was allowed.",
        help: "Put what changes calls outside what judges them.",
    },
    Pair {
        rule: "decision-before-visibility",
        severity: Severity::Error,
        outer: |note| note.has(Duty::Decides) && !note.is_foreign(),
        inner: |note| note.has(Duty::Hides),
        unless: |_| false,
        why: "a hidden tool is refused with a reason, which tells that it exists.",
        help: "Put visibility outside what decides.",
    },
    Pair {
        rule: "ask-before-validation",
        severity: Severity::Warning,
        outer: |note| note.has(Duty::Asks),
        inner: |note| note.has(Duty::Validates),
        unless: |note| note.has(Duty::Rewrites),
        why: "a person is asked about calls that cannot run.",
        help: "Put validation outside what asks.",
    },
    Pair {
        rule: "error-escapes",
        severity: Severity::Warning,
        outer: |note| note.is_foreign() && (note.has(Duty::Times) || note.has(Duty::Sheds) || note.has(Duty::Queues)),
        inner: |note| note.has(Duty::CatchesErrors),
        unless: |_| false,
        why: "the outer layer fails with an error, which the inner one cannot catch.",
        help: "Put catch_error outside every layer that may fail.",
    },
    Pair {
        rule: "panic-escapes",
        severity: Severity::Warning,
        outer: |note| !note.is_foreign() && !note.duties().is_empty(),
        inner: |note| note.has(Duty::CatchesPanics),
        unless: |note| note.has(Duty::Queues),
        why: "a panic of the outer layer passes by the inner one.",
        help: "Put catch_panic outermost.",
    },
    Pair {
        rule: "timeout-without-queue",
        severity: Severity::Warning,
        outer: |note| note.is_foreign() && note.has(Duty::Times),
        inner: |note| note.has(Duty::Limits),
        unless: |note| note.has(Duty::Sheds) || note.has(Duty::Queues),
        why: "tower's timeout starts once a permit is there, so the wait for one has no bound.",
        help: "Use toolstack's timeout, which counts the wait, or put load_shed between the two.",
    },
    Pair {
        rule: "change-after-redaction",
        severity: Severity::Warning,
        outer: |note| note.has(Duty::ChangesResults) && !note.has(Duty::Redacts),
        inner: |note| note.has(Duty::Redacts),
        unless: |_| false,
        why: "what the outer layer adds to a result is not redacted, and what it judges was.",
        help: "Put redaction outside what else changes results.",
    },
    Pair {
        rule: "results-before-retry",
        severity: Severity::Warning,
        outer: |note| note.has(Duty::Repeats),
        inner: |note| note.has(Duty::CatchesErrors),
        unless: |_| false,
        why: "what is within never fails, so there is nothing to repeat.",
        help: "Put catch_error outside the retry.",
    },
];

/// Names the faults of a stack and of its tools' own layers.
pub(crate) fn faults(description: &Description) -> Vec<Fault> {
    let mut faults = faults_of(description.layers(), None);
    for tool in description.tools() {
        let around = description.layers().len();
        let all: Vec<Note> = description.layers().iter().chain(&tool.layers).cloned().collect();
        // Faults that lie outside the tool are named once, above.
        faults.extend(faults_at(&all, around, Some(&tool.name)));
    }
    faults
}

fn faults_of(layers: &[Note], tool: Option<&str>) -> Vec<Fault> {
    faults_at(layers, 0, tool)
}

/// The faults whose inner layer stands at `from` or further in.
fn faults_at(layers: &[Note], from: usize, tool: Option<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for pair in PAIRS {
        for (at, inner) in layers.iter().enumerate().skip(from).filter(|(_, note)| (pair.inner)(note)) {
            let outer = layers[..at].iter().rposition(|note| (pair.outer)(note));
            if let Some(outer) = outer.filter(|outer| !layers[outer + 1..at].iter().any(pair.unless)) {
                faults.push(Fault {
                    rule: pair.rule,
                    severity: pair.severity,
                    layers: vec![layers[outer].name().to_owned(), inner.name().to_owned()],
                    tool: tool.map(str::to_owned),
                    why: pair.why,
                    help: pair.help,
                });
            }
        }
    }
    for (at, note) in layers.iter().enumerate().skip(from) {
        let next = layers.get(at + 1);
        if note.has(Duty::Sheds) && !next.is_some_and(|next| next.has(Duty::Limits) || next.has(Duty::Queues)) {
            faults.push(Fault {
                rule: "shed-of-nothing",
                severity: Severity::Warning,
                layers: vec![note.name().to_owned()],
                tool: tool.map(str::to_owned),
                why: "load is shed when what stands directly within is not ready, and nothing there ever is not.",
                help: "Put load_shed directly outside the limit that it watches.",
            });
        }
        let guarded = next.is_none_or(|next| next.has(Duty::CatchesPanics));
        if note.has(Duty::Queues) && !guarded {
            faults.push(Fault {
                rule: "panic-ends-queue",
                severity: Severity::Warning,
                layers: vec![note.name().to_owned()],
                tool: tool.map(str::to_owned),
                why: "a panic of a layer within, in `call`, ends the worker and with it every later call.",
                help: "Put catch_panic directly inside the buffer.",
            });
        }
    }
    faults
}

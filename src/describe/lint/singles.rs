use crate::describe::{Duty, Note};

/// A rule about one layer and what stands within it.
pub(super) struct Single {
    pub(super) rule: &'static str,
    pub(super) duty: Duty,
    /// Whether it is broken by what stands within, outermost first.
    pub(super) broken: fn(&[Note]) -> bool,
    pub(super) why: &'static str,
    pub(super) help: &'static str,
}

pub(super) const SINGLES: &[Single] = &[
    Single {
        rule: "shed-of-nothing",
        duty: Duty::Sheds,
        broken: |within| {
            for note in within {
                match note.is_ready_at_once() {
                    _ if note.has(Duty::Limits) || note.has(Duty::Queues) => return false,
                    Some(false) => {}
                    Some(true) => return true,
                    // Nobody knows.
                    None => return false,
                }
            }
            true
        },
        why: "load is shed when what stands within is not ready, and what stands there always is.",
        help: "Put load_shed directly outside the limit that it watches.",
    },
    Single {
        rule: "panic-ends-queue",
        duty: Duty::Queues,
        broken: |within| {
            let harmless = [Duty::Times, Duty::Limits, Duty::Sheds, Duty::Queues, Duty::CatchesErrors];
            let next = within.iter().find(|note| !harmless.into_iter().any(|duty| note.has(duty)));
            next.is_some_and(|note| !note.has(Duty::CatchesPanics))
        },
        why: "a panic of a layer within, in `call`, ends the worker and with it every later call.",
        help: "Put catch_panic directly inside the buffer.",
    },
    Single {
        rule: "nobody-to-ask",
        duty: Duty::LacksApprover,
        broken: |_| true,
        why: "it may have to ask a person, and knows none: such calls are refused at once.",
        help: "Give it an approver, or let its rules ask for nothing.",
    },
    Single {
        rule: "unreachable-approver",
        duty: Duty::NeverAsks,
        broken: |_| true,
        why: "it has an approver, and no rule that asks.",
        help: "Add a rule that asks, or ask about calls that no rule is about.",
    },
];

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use serde::Serialize;

use crate::{select::ToolSelector, tool::ToolEntry};

/// What one layer says of itself: its name, what it does to calls, and its settings.
///
/// ```
/// use toolstack::describe::{Duty, Note};
///
/// let note = Note::new("my_limit").duty(Duty::Decides).setting("per_minute", 60);
/// assert_eq!(note.to_string(), "my_limit (per_minute: 60)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    name: Cow<'static, str>,
    duties: Vec<Duty>,
    settings: Vec<(Cow<'static, str>, String)>,
    foreign: bool,
    /// How many layers of other crates, directly within, this is the label of.
    #[serde(skip)]
    labels: usize,
    /// Whether the layer is ready whatever is within; `None` if that is not known.
    #[serde(skip)]
    ready_at_once: Option<bool>,
    /// After how long it ends a call in any case, and at the earliest.
    #[serde(skip)]
    ends: (Option<Duration>, Option<Duration>),
    /// Which tools parts of the layer are about.
    #[serde(skip)]
    selects: Vec<(Cow<'static, str>, ToolSelector)>,
    #[serde(skip)]
    this: &'static str,
    #[serde(skip)]
    inner: &'static str,
}

/// What a layer does to calls, for [`lint`](crate::StackExt::lint) to judge the order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Duty {
    /// Decides, and always lets the tool run.
    AllowsAll,
    /// Answers in the tool's place.
    Answers,
    /// Asks a person.
    Asks,
    /// Turns errors of other layers into refusals.
    CatchesErrors,
    /// Turns panics into refusals.
    CatchesPanics,
    /// Changes what the model reads.
    ChangesResults,
    /// Decides whether the tool runs.
    Decides,
    /// Decides whether the tool runs, by what tool it is, whatever the arguments are.
    DecidesByTool,
    /// Asks for credentials, and hands them inward with a call that is made once more.
    FetchesCredentials,
    /// Goes by who asks.
    GoesByCaller,
    /// Decides which tools there are for this caller.
    Hides,
    /// Finds out who asks.
    Identifies,
    /// Would ask a person, and does not know whom.
    LacksApprover,
    /// Bounds how many calls run, or how often.
    Limits,
    /// Knows whom to ask, and has no reason to.
    NeverAsks,
    /// Sees how each request ended, and changes nothing.
    Observes,
    /// Sets arguments that the caller may not choose.
    Pins,
    /// Queues calls for a worker that owns what is within.
    Queues,
    /// Hides secrets in what the model reads.
    Redacts,
    /// Calls more than once.
    Repeats,
    /// Changes the name or the arguments of a call.
    Rewrites,
    /// Changes the arguments of a call, and never its name.
    RewritesArguments,
    /// Answers at once when what is within is not ready.
    Sheds,
    /// Asks callers for a better sign-in.
    StepsUp,
    /// Bounds how long a call takes.
    Times,
    /// Checks arguments, by rules that need nobody.
    Validates,
    /// Takes its time to decide, as whatever asks a person does.
    Waits,
}

impl Note {
    /// A layer of this name.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            duties: Vec::new(),
            settings: Vec::new(),
            foreign: false,
            labels: 0,
            ready_at_once: None,
            ends: (None, None),
            selects: Vec::new(),
            this: "",
            inner: "",
        }
    }

    /// A layer of another crate.
    pub(crate) fn foreign(name: impl Into<Cow<'static, str>>) -> Self {
        Self { foreign: true, ..Self::new(name) }
    }

    /// Says that this is the label of so many layers of other crates, directly within.
    pub(crate) fn labelling(mut self, layers: usize) -> Self {
        self.labels = layers;
        self
    }

    /// Says that the layer is ready whatever is within, or as ready as that is.
    pub(crate) fn ready_at_once(mut self, at_once: bool) -> Self {
        self.ready_at_once = Some(at_once);
        self
    }

    /// Says after how long the layer ends a call in any case, and at the earliest.
    pub(crate) fn ends(mut self, latest: Option<Duration>, earliest: Option<Duration>) -> Self {
        self.ends = (latest, earliest);
        self
    }

    /// Adds what the layer does to calls.
    #[must_use]
    pub fn duty(mut self, duty: Duty) -> Self {
        if !self.duties.contains(&duty) {
            self.duties.push(duty);
        }
        self
    }

    /// Adds a setting. It is shown to whoever may see the stack: no secret belongs here.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "`setting(\"max\", 4)` reads better than `setting(\"max\", &4)`")]
    pub fn setting(mut self, key: impl Into<Cow<'static, str>>, value: impl ToString) -> Self {
        self.settings.push((key.into(), value.to_string()));
        self
    }

    /// Says that a part of the layer, such as a rule, is about these tools only. [`lint`](crate::StackExt::lint) names it where there is
    /// no such tool.
    #[must_use]
    pub fn selects(mut self, part: impl Into<Cow<'static, str>>, tools: ToolSelector) -> Self {
        self.selects.push((part.into(), tools));
        self
    }

    /// Notes between which types the layer stands.
    pub(crate) fn between(mut self, this: &'static str, inner: &'static str) -> Self {
        (self.this, self.inner) = (this, inner);
        self
    }

    /// The layer's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does to calls.
    #[must_use]
    pub fn duties(&self) -> &[Duty] {
        &self.duties
    }

    /// Whether it does this.
    #[must_use]
    pub fn has(&self, duty: Duty) -> bool {
        self.duties.contains(&duty)
    }

    /// Its settings, in order.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(key, value)| (&**key, value.as_str()))
    }

    /// Whether it comes from another crate.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    pub(crate) fn is_ready_at_once(&self) -> Option<bool> {
        self.ready_at_once
    }

    pub(crate) fn latest_end(&self) -> Option<Duration> {
        self.ends.0
    }

    pub(crate) fn earliest_end(&self) -> Option<Duration> {
        self.ends.1
    }

    /// The parts of the layer that are about no tool of these.
    pub(crate) fn idle(&self, all: &[Arc<ToolEntry>]) -> impl Iterator<Item = &str> {
        let idle = |tools: &ToolSelector| !all.iter().any(|tool| tools.matches(tool));
        self.selects.iter().filter(move |(_, tools)| idle(tools)).map(|(part, _)| &**part)
    }

    pub(crate) fn labels(&self) -> usize {
        self.labels
    }

    pub(crate) fn this(&self) -> &'static str {
        self.this
    }

    pub(crate) fn inner(&self) -> &'static str {
        self.inner
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.settings.iter().enumerate() {
            write!(f, "{}{key}: {value}", if i == 0 { " (" } else { ", " })?;
        }
        if self.settings.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

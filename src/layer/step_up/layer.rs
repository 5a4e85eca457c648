use std::{
    fmt,
    time::{Duration, SystemTime},
};

use tower_layer::Layer;

use super::{NAME, StepUpRule};
use crate::{
    describe::{Duty, Note},
    error::{Challenge, Refusal, RefusalKind},
    layer::{
        around::{Policed, Policy, PolicyLayer, Site, Step},
        wall_clock::WallClock,
    },
    model::ToolCall,
    operation::View,
    tool::ToolEntry,
};

/// Asks for a better sign-in; see the [module](super).
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct StepUpLayer(StepUp);

/// A service that asks for a better sign-in.
pub type StepUpService<S> = Policed<S, StepUp>;

/// The policy of a [`StepUpLayer`].
#[derive(Clone)]
pub struct StepUp {
    rules: Vec<StepUpRule>,
    leeway: Duration,
    anonymous: bool,
    clock: WallClock,
}

impl StepUpLayer {
    /// How far clocks may be apart, unless [`leeway`](Self::leeway) says otherwise.
    pub const LEEWAY: Duration = Duration::from_secs(30);

    /// Asks for what these rules say. All rules about a call count.
    pub fn new(rules: impl IntoIterator<Item = StepUpRule>) -> Self {
        Self(StepUp { rules: rules.into_iter().collect(), leeway: Self::LEEWAY, anonymous: false, clock: WallClock::default() })
    }

    /// Lets calls pass that nobody vouches for, as where a stack is used without any sign-in at all. They are refused otherwise.
    pub const fn let_anonymous_pass(mut self) -> Self {
        self.0.anonymous = true;
        self
    }

    /// Sets how far clocks may be apart. It is added to every `max_age`, and a sign-in further ahead than this is none.
    pub const fn leeway(mut self, leeway: Duration) -> Self {
        self.0.leeway = leeway;
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.0.clock = WallClock::of(now);
        self
    }

    /// The policy, for a stack that may leave it out.
    pub(crate) fn into_policy(self) -> StepUp {
        self.0
    }
}

impl<S> Layer<S> for StepUpLayer {
    type Service = StepUpService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

impl StepUp {
    fn judge(&self, call: &ToolCall, tool: Option<&ToolEntry>) -> Result<(), Refusal> {
        let mut rules = self.rules.iter().filter(|rule| rule.selects(call.name(), tool)).peekable();
        if rules.peek().is_none() {
            return Ok(());
        }
        let principal = call.context.principal();
        if principal.is_anonymous() && self.anonymous {
            return Ok(());
        }
        let arguments = call.arguments.value().ok().filter(|value| value.is_object());
        let about: Vec<&StepUpRule> = rules.filter(|rule| rule.is_about(arguments)).collect();
        let now = self.clock.now();
        match about.iter().find(|rule| !rule.is_met(principal, now, self.leeway)) {
            None => Ok(()),
            Some(unmet) => Err(refusal(unmet, &about)),
        }
    }
}

/// One challenge for all rules about the call: the classes that satisfy all of them, or if there is none, those of the one that was not
/// met; and the shortest age.
#[cold]
fn refusal(unmet: &StepUpRule, about: &[&StepUpRule]) -> Refusal {
    let mut asking = about.iter().filter(|rule| !rule.acr.is_empty());
    let mut common = asking.next().map_or_else(Vec::new, |rule| rule.acr.clone());
    for rule in asking {
        common.retain(|acr| rule.acr.contains(acr));
    }
    let acr = if common.is_empty() { unmet.acr.clone() } else { common };
    let age = about.iter().filter_map(|rule| rule.max_age).min();
    Refusal::new(RefusalKind::StepUp, "A stronger or more recent sign-in is needed for this.")
        .with_by(NAME)
        .with_challenge(Challenge::step_up(acr, age))
}

impl Policy for StepUp {
    type State = ();

    const TOOL: bool = true;

    fn note(&self) -> Option<Note> {
        let mut note = Note::new(NAME)
            .duty(Duty::Decides)
            .duty(Duty::GoesByCaller)
            .duty(Duty::StepsUp)
            .setting("rules", self.rules.len())
            .setting("anonymous", if self.anonymous { "passes" } else { "refused" });
        for (place, rule) in self.rules.iter().enumerate() {
            note = note.selects(format!("rule {}", place + 1), rule.tools.clone());
        }
        Some(note)
    }

    fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
        match request {
            View::Call(call) => self.judge(call, site.tool).into(),
            _ => Step::Pass,
        }
    }
}

impl fmt::Debug for StepUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepUp").field("rules", &self.rules.len()).field("leeway", &self.leeway).finish_non_exhaustive()
    }
}

impl fmt::Debug for StepUpLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StepUpLayer").field(&self.0).finish()
    }
}

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex},
};

use super::lock;
use crate::{
    describe::Note,
    layer::{Ending, Policy, PolicyLayer, Site, Step},
    model::Outcome,
    operation::View,
};

/// Writes down what passes the places where its layers stand. Clones write to the same record.
///
/// ```
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{Router, StackExt, testing::{Probe, Recorder}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let recorder = Recorder::new();
/// let stack = ServiceBuilder::new()
///     .layer(recorder.layer("A"))
///     .layer(recorder.layer("B"))
///     .service(Router::new().tool(Probe::new().tool("probe")));
///
/// stack.call_tool("probe", json!({})).await;
/// assert_eq!(recorder.trace(), "A> B> B< A<");
/// assert_eq!(recorder.outcomes("A"), [toolstack::model::Outcome::Completed]);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    record: Arc<Mutex<Vec<Event>>>,
}

#[derive(Clone, Debug)]
struct Event {
    place: Cow<'static, str>,
    /// `None` for a start.
    outcome: Option<Outcome>,
}

impl Recorder {
    /// An empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A layer that writes to the record under this name of its place. It sees calls and lists.
    pub fn layer(&self, place: impl Into<Cow<'static, str>>) -> PolicyLayer<Place> {
        PolicyLayer::new(Place { place: place.into(), recorder: self.clone() })
    }

    /// What passed, in order: `A>` inward, `A<` outward.
    #[must_use]
    pub fn trace(&self) -> String {
        let events = lock(&self.record);
        let events: Vec<_> =
            events.iter().map(|event| format!("{}{}", event.place, if event.outcome.is_some() { '<' } else { '>' })).collect();
        events.join(" ")
    }

    /// How many requests went inward at this place.
    #[must_use]
    pub fn starts(&self, place: &str) -> usize {
        lock(&self.record).iter().filter(|event| event.place == place && event.outcome.is_none()).count()
    }

    /// How the requests at this place ended, in order.
    #[must_use]
    pub fn outcomes(&self, place: &str) -> Vec<Outcome> {
        lock(&self.record).iter().filter(|event| event.place == place).filter_map(|event| event.outcome).collect()
    }

    fn write(&self, place: Cow<'static, str>, outcome: Option<Outcome>) {
        lock(&self.record).push(Event { place, outcome });
    }
}

/// The policy of a [`Recorder::layer`].
pub struct Place {
    place: Cow<'static, str>,
    recorder: Recorder,
}

impl Policy for Place {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new(self.place.clone()))
    }

    fn before(&self, _: View<'_>, _: Site<'_>) -> Step {
        self.recorder.write(self.place.clone(), None);
        Step::Continue(())
    }

    fn after(&self, (): (), ending: Ending<'_>) {
        self.recorder.write(self.place.clone(), Some(ending.outcome()));
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.place).finish()
    }
}

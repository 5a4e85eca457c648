use std::{any::type_name, error::Error as _, fmt, panic::AssertUnwindSafe, sync::atomic::AtomicU64, time::Duration};

use futures_util::FutureExt;
use tower_layer::Layer;

use super::{Strict, bench::Subject, erased::Unnamed, laws};
use crate::{
    layer::catch_panic::panicked,
    model::{ToolCall, ToolResponse},
    stack::ToolStack,
};

/// The laws of a good layer, run against yours.
///
/// | law | says |
/// |---|---|
/// | transparent | a call that it lets through arrives once, with its id, name, arguments and context, and its response comes back as it was |
/// | exact | numbers, unknown fields and error flags arrive bit for bit |
/// | interim | a response that asks for input, or names a task, comes back as it was, each time anew; what a caller brings back arrives |
/// | refusals pass | a refusal from within comes back whole, and what was denied is not tried again |
/// | all operations | lists and descriptions pass too, for whoever asks, and the layer notes itself |
/// | ready instance | the instance within that was polled is the one that is called, also on clones |
/// | readiness passes or waits | with nothing free within, a call is not begun before something is, and is begun then |
/// | waits empty-handed | a layer that waits before a call holds no permit within meanwhile |
/// | readiness errors | an error of readiness is told, and the failed service is not called |
/// | errors pass | an error from within comes out as it is, or as a refusal if the layer [closes errors](Self::closes_errors) |
/// | dropped uncalled | an instance that is ready and dropped gives its permit back |
/// | dropped anywhere | a future dropped at any of its awaits gives everything back |
/// | dropped is cancelled | a call within ends with its caller, and does not run on |
/// | panics | a panic from within leaves nothing behind: the next call works |
/// | together | many calls at once are all answered, as many at a time as may run within, and never more |
///
/// A layer that bounds how many calls run is made with room for four. A layer that breaks a law on purpose, such as a cache of
/// everything, asks which laws are [broken](Self::broken) and says which it expects.
///
/// Run it under paused time (`#[tokio::test(start_paused = true)]`): a layer with timers is done at once then, and one that hangs is found
/// out at once.
///
/// ```
/// use toolstack::{Refusal, RefusalKind, layer::gate, testing::Contract};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// let broken = Contract::new(|| gate("never", |_| Err(Refusal::new(RefusalKind::Denied, "no")))).broken().await;
/// assert!(broken.iter().any(|broken| broken.law == "transparent"));
/// # }
/// ```
#[must_use = "a contract does nothing until it is checked"]
pub struct Contract<F> {
    make: F,
    call: Option<fn() -> ToolCall>,
    answer: Option<fn() -> ToolResponse>,
    rewrites_calls: bool,
    changes_results: bool,
    closes_errors: bool,
}

/// A law that a layer breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The law.
    pub law: &'static str,
    /// How.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.how)
    }
}

impl<L, F> Contract<F>
where
    F: Fn() -> L,
    L: Layer<Strict, Service: ToolStack>,
{
    /// The contract for the layers that `make` makes: a new one for each law.
    pub fn new(make: F) -> Self {
        Self { make, call: None, answer: None, rewrites_calls: false, changes_results: false, closes_errors: false }
    }

    /// Uses this call, which the layer lets through. The tool that it names is there.
    pub fn call(mut self, call: fn() -> ToolCall) -> Self {
        self.call = Some(call);
        self
    }

    /// Lets the tool answer this, which the layer lets through.
    pub fn answer(mut self, answer: fn() -> ToolResponse) -> Self {
        self.answer = Some(answer);
        self
    }

    /// Does not ask that calls arrive unchanged.
    pub const fn rewrites_calls(mut self) -> Self {
        self.rewrites_calls = true;
        self
    }

    /// Does not ask that results come back unchanged. How a call ended, no layer changes.
    pub const fn changes_results(mut self) -> Self {
        self.changes_results = true;
        self
    }

    /// Asks that an error from within becomes a refusal.
    pub const fn closes_errors(mut self) -> Self {
        self.closes_errors = true;
        self
    }

    /// Runs every law.
    ///
    /// # Panics
    ///
    /// If the layer breaks one; the message names all that it breaks.
    pub async fn check(self) {
        let broken = self.broken().await;
        let list: Vec<_> = broken.iter().map(|broken| format!("\n  {broken}")).collect();
        assert!(broken.is_empty(), "{} breaks the contract of a layer:{}", type_name::<L>(), list.concat());
    }

    /// Runs every law, and says which the layer breaks.
    pub async fn broken(self) -> Vec<Broken> {
        /// More than any law takes, unless something hangs.
        const LONG: Duration = Duration::from_secs(3600 * 24);

        let mut broken = Vec::new();
        macro_rules! laws {
            ($($law:literal: $check:path;)*) => {$(
                let subject = Subject {
                    make: &|strict| Unnamed::new((self.make)().layer(strict)),
                    type_name: type_name::<L::Service>(),
                    call: self.call,
                    answer: self.answer,
                    rewrites_calls: self.rewrites_calls,
                    changes_results: self.changes_results,
                    closes_errors: self.closes_errors,
                    calls: AtomicU64::new(0),
                };
                let outcome = tokio::time::timeout(LONG, AssertUnwindSafe($check(subject)).catch_unwind()).await;
                let how = match outcome {
                    Ok(Ok(Ok(()))) => None,
                    Ok(Ok(Err(how))) => Some(how),
                    Ok(Err(panic)) => Some(panicked("contract", &*panic).source().map_or_else(String::new, ToString::to_string)),
                    Err(_) => Some("hangs".to_owned()),
                };
                broken.extend(how.map(|how| Broken { law: $law, how }));
            )*};
        }
        laws! {
            "transparent": laws::transparent;
            "exact": laws::exact;
            "interim": laws::interim;
            "refusals pass": laws::refusals_pass;
            "all operations": laws::all_operations;
            "ready instance": laws::ready_instance;
            "readiness passes or waits": laws::readiness_passes_or_waits;
            "waits empty-handed": laws::waits_empty_handed;
            "readiness errors": laws::readiness_errors;
            "errors pass": laws::errors_pass;
            "dropped uncalled": laws::dropped_uncalled;
            "dropped anywhere": laws::dropped_anywhere;
            "dropped is cancelled": laws::dropped_is_cancelled;
            "panics": laws::panics;
            "together": laws::together;
        }
        broken
    }
}

impl<F> fmt::Debug for Contract<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract").field("make", &type_name::<F>()).finish_non_exhaustive()
    }
}

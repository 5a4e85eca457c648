//! A layer of one's own, and its tests: the contract that every good layer keeps, and probes for what this one does.
//!
//! Run with `cargo run --features testing --example testing_a_layer`. In a crate of your own, the functions here are `#[tokio::test]`s.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolResponse,
    describe::{Duty, Note},
    layer::{Ending, Policy, PolicyLayer, Site, Step},
    model::Outcome,
    operation::View,
    testing::{Contract, Controlled, Probe, Recorder},
};
use tower::ServiceBuilder;

/// Lets this many calls run at once, and refuses the others.
struct AtOnce {
    most: u32,
    running: Arc<AtomicU32>,
}

impl Policy for AtOnce {
    type State = ();

    fn note(&self) -> Option<Note> {
        Some(Note::new("at_once").duty(Duty::Decides).setting("most", self.most))
    }

    fn before(&self, request: View<'_>, _: Site<'_>) -> Step {
        let View::Call(_) = request else { return Step::Pass };
        let taken = self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |running| (running < self.most).then_some(running + 1));
        match taken {
            Ok(_) => Step::Continue(()),
            Err(_) => Step::refuse(Refusal::new(RefusalKind::Overloaded, "Too many calls are running.").with_by("at_once")),
        }
    }

    // Hears of every end: an answer, an error, a panic, a caller that has gone.
    fn after(&self, (): (), _: Ending<'_>) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn at_once(most: u32) -> PolicyLayer<AtOnce> {
    PolicyLayer::new(AtOnce { most, running: Arc::default() })
}

/// One line for all that is easily done wrong in a layer.
async fn it_keeps_the_contract() {
    Contract::new(|| at_once(100)).check().await;
}

/// The contract can fail: this layer takes a place and never gives it back.
async fn a_layer_that_leaks_breaks_it() {
    struct Leaks(AtOnce);

    impl Policy for Leaks {
        type State = ();

        fn note(&self) -> Option<Note> {
            self.0.note()
        }

        fn before(&self, request: View<'_>, site: Site<'_>) -> Step {
            self.0.before(request, site)
        }
    }

    let broken = Contract::new(|| PolicyLayer::new(Leaks(AtOnce { most: 1, running: Arc::default() }))).broken().await;
    assert!(!broken.is_empty());
    println!("  the contract says of a layer that leaks: {}", broken[0]);
}

/// What the layer is for: a probe shows what got through, a controlled tool holds its place as long as the test wants.
async fn it_refuses_the_call_that_is_one_too_many() {
    let controlled = Controlled::new();
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(at_once(1)).service(Router::new().tool(controlled.tool("slow")).tool(probe.tool("quick")));

    let slow = tokio::spawn(stack.call_tool("slow", json!({})));
    let held = controlled.next().await;
    assert_eq!(stack.call_tool("quick", json!({})).await.outcome(), Outcome::Refused(RefusalKind::Overloaded));
    assert_eq!(probe.runs(), 0);

    held.respond(ToolResponse::text("done"));
    assert!(slow.await.is_ok_and(|answer| answer.is_completed()));
    assert!(stack.call_tool("quick", json!({})).await.is_completed());
    assert_eq!(probe.runs(), 1);
}

/// A caller that goes gives its place back.
async fn a_dropped_call_frees_its_place() {
    let controlled = Controlled::new();
    let stack = ServiceBuilder::new().layer(at_once(1)).service(Router::new().tool(controlled.tool("slow")));

    let slow = tokio::spawn(stack.call_tool("slow", json!({})));
    let _held = controlled.next().await;
    slow.abort();
    assert!(slow.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 1));

    let again = tokio::spawn(stack.call_tool("slow", json!({})));
    controlled.next().await.respond(ToolResponse::text("done"));
    assert!(again.await.is_ok_and(|answer| answer.is_completed()));
}

/// Where it stands: a recorder on either side sees what passes.
async fn what_it_refuses_is_seen_outside_and_not_within() {
    let recorder = Recorder::new();
    let stack = ServiceBuilder::new()
        .layer(recorder.layer("outside"))
        .layer(at_once(0))
        .layer(recorder.layer("within"))
        .service(Router::new().tool(Probe::new().tool("quick")));

    stack.call_tool("quick", json!({})).await;
    assert_eq!(recorder.trace(), "outside> outside<");
    assert_eq!(recorder.outcomes("outside"), [Outcome::Refused(RefusalKind::Overloaded)]);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    macro_rules! run {
        ($($test:ident)*) => {$(
            $test().await;
            println!("{}", stringify!($test).replace('_', " "));
        )*};
    }
    run! {
        it_keeps_the_contract
        a_layer_that_leaks_breaks_it
        it_refuses_the_call_that_is_one_too_many
        a_dropped_call_frees_its_place
        what_it_refuses_is_seen_outside_and_not_within
    }
}

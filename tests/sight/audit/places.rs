//! Queues that are full: what is lost is seen, and where nothing may be lost, nothing runs.

use futures_util::FutureExt;
use serde_json::json;
use toolstack::{
    RefusalKind, Router, ServiceBuilderExt, StackExt,
    layer::{
        AuditLayer,
        audit::{AuditEntry, AuditRecord, AuditSink, channel},
    },
    testing::{Controlled, Probe},
};
use tower::{Layer, ServiceBuilder};

use super::{Count, audit, one};

fn router(probe: &Probe) -> Router {
    Router::new().tool(probe.tool("probe"))
}

/// Sequence numbers of records, and how many were lost between them.
fn told(entry: AuditEntry) -> Result<u64, u64> {
    match entry {
        AuditEntry::Record(record) => Ok(record.sequence),
        AuditEntry::Lost(loss) => Err(loss.lost),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_finds_no_room_is_counted_and_leaves_a_gap_where_it_would_have_stood() {
    let (sink, mut log) = channel(2);
    let handle = sink.handle();
    let stack = ServiceBuilder::new().audit(sink).service(router(&Probe::new()));
    let call = async || assert!(stack.call_tool("probe", json!({})).await.is_completed());
    for _ in 0..5 {
        call().await;
    }
    assert_eq!((handle.queued(), handle.lost(), handle.written()), (2, 3, 0));
    let mut next = || log.try_recv().map(told);
    assert_eq!(next(), Some(Ok(0)));
    call().await;
    assert_eq!((next(), next(), next(), next()), (Some(Ok(1)), Some(Err(3)), Some(Ok(5)), None));
    for _ in 0..3 {
        call().await;
    }
    // Here nothing comes after the gap.
    assert_eq!((next(), next(), next(), next()), (Some(Ok(6)), Some(Ok(7)), Some(Err(1)), None));
    assert_eq!((handle.lost(), handle.written()), (4, 5));
    drop((stack, handle));
    assert_eq!(log.recv().await.map(told), None);
}

#[tokio::test]
async fn a_receiver_that_has_gone_holds_nothing_up() {
    let (sink, log) = channel(2);
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router(&Probe::new()));
    drop(log);
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    assert_eq!((handle.lost(), handle.queued()), (1, 0));
    handle.flush().await;
    handle.closed().await;
}

#[tokio::test]
async fn a_flush_waits_for_what_was_recorded_before() {
    let (sink, mut log) = channel(8);
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router(&Probe::new()));
    stack.call_tool("probe", json!({})).await;
    let mut flush = Box::pin(handle.flush());
    assert!((&mut flush).now_or_never().is_none());
    stack.call_tool("probe", json!({})).await;
    assert_eq!(log.recv().await.map(told), Some(Ok(0)));
    assert!((&mut flush).now_or_never().is_none(), "nobody has taken what follows it");
    assert_eq!(log.recv().await.map(told), Some(Ok(1)));
    flush.await;
}

#[tokio::test]
async fn required_runs_nothing_that_could_not_be_recorded() {
    let (sink, mut log) = channel(1);
    let handle = sink.handle();
    let (probe, controlled) = (Probe::new(), Controlled::new());
    let stack = AuditLayer::new(sink).required().layer(router(&probe).tool(controlled.tool("wait")));

    // The place is kept while the call runs.
    let mut running = Box::pin(stack.call_tool("wait", json!({})));
    assert!((&mut running).now_or_never().is_none());
    assert_eq!(handle.queued(), 1);
    let refused = stack.call_tool("probe", json!({})).await;
    let refusal = refused.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), probe.runs()), (RefusalKind::Overloaded, "audit", 0));
    assert_eq!(stack.list_tools().await.refusal().unwrap().kind(), RefusalKind::Overloaded);
    assert_eq!(handle.lost(), 2, "the refusals have no room either");

    drop(running);
    let entries = [log.try_recv().unwrap(), log.try_recv().unwrap()].map(told);
    assert_eq!(entries, [Err(2), Ok(2)]);
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    drop(log);
    assert_eq!(stack.call_tool("probe", json!({})).await.refusal().unwrap().kind(), RefusalKind::Overloaded, "nobody would read it");
    assert_eq!(probe.runs(), 1);
}

#[tokio::test]
async fn what_one_sink_has_no_room_for_is_recorded_in_the_others() {
    let (full, _log) = channel(1);
    let (layer, mut log) = audit();
    let stack = layer.and(full).required().layer(router(&Probe::new()));
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    one(&mut log);
    assert!(!stack.call_tool("probe", json!({})).await.is_completed());
    let record = one(&mut log);
    assert_eq!((record.refusal, record.by.as_deref(), record.attempts), (Some(RefusalKind::Overloaded), Some("audit"), 0));
}

/// Panics over every record, or for every place.
struct Panics {
    reserve: bool,
    seen: Count,
}

impl AuditSink for Panics {
    fn record(&self, _: &AuditRecord) {
        self.seen.up();
        panic!("as it was told to");
    }

    fn reserve(&self) -> bool {
        assert!(!self.reserve, "as it was told to");
        true
    }
}

#[tokio::test]
async fn a_sink_that_panics_changes_no_call_and_is_counted_and_the_others_go_on() {
    let seen = Count::default();
    let others = Count::default();
    let other = others.clone();
    let layer = AuditLayer::new(Panics { reserve: false, seen: seen.clone() }).and(move |_: &AuditRecord| {
        other.up();
    });
    let stack = layer.layer(router(&Probe::new()));
    assert!(stack.call_tool("probe", json!({})).await.is_completed());
    drop(stack.call_tool("probe", json!({})).now_or_never());
    assert_eq!((seen.get(), others.get(), layer.sink_panics()), (2, 2, 2));

    let closed = AuditLayer::new(Panics { reserve: true, seen: Count::default() }).required();
    let probe = Probe::new();
    let answer = closed.layer(router(&probe)).call_tool("probe", json!({})).await;
    assert_eq!((answer.refusal().unwrap().kind(), probe.runs()), (RefusalKind::Overloaded, 0));
}

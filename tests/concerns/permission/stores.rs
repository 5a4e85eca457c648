//! How much the stores in memory keep, and for how long.

use std::time::Duration;

use serde_json::{Value, json};
use toolstack::{
    layer::permission::{Approval, ArgumentRule},
    store::{Grant, GrantScope, GrantStore, MemoryGrants, MemoryPending, Owner, PendingApproval, PendingStore, ToolIdentity, now},
};

fn owner(subject: &str) -> Owner {
    serde_json::from_value(json!({ "subject": subject })).unwrap()
}

fn tool(name: &str) -> ToolIdentity {
    serde_json::from_value(json!({ "name": name, "source": "local", "fingerprint": "f" })).unwrap()
}

/// A question that takes a little more than so many bytes, and can be answered for an hour.
fn question(id: &str, subject: &str, bytes: usize) -> PendingApproval {
    let (arguments, message) = (json!({ "a": "x".repeat(bytes) }), String::new());
    let expires = now() + Duration::from_secs(3600);
    PendingApproval::new(id.to_owned(), "permission".to_owned(), owner(subject), tool("t"), arguments.into(), message, expires)
}

async fn ids(store: &MemoryPending) -> Vec<String> {
    let mut ids: Vec<_> = store.list().await.unwrap().into_iter().map(|pending| pending.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_question_and_all_of_them_are_bounded_in_bytes() {
    let store = MemoryPending::new();
    assert!(store.put(question("a", "ada", 200 * 1024)).await.is_ok());
    assert!(store.put(question("b", "ada", 256 * 1024)).await.is_err());
    assert_eq!(ids(&store).await, ["a"]);

    let store = MemoryPending::new().max_bytes(4000, 10_000);
    for (id, subject) in [("a1", "ada"), ("a2", "ada"), ("e1", "eve")] {
        store.put(question(id, subject, 2800)).await.unwrap();
    }
    // One's own make room, the oldest first, and nobody else's.
    store.put(question("a3", "ada", 2800)).await.unwrap();
    assert_eq!(ids(&store).await, ["a2", "a3", "e1"]);
    assert!(store.put(question("b1", "bob", 2800)).await.is_err());
    assert_eq!(ids(&store).await, ["a2", "a3", "e1"]);
    // What was taken out leaves its room.
    assert!(store.take("a2").await.unwrap().is_some());
    store.put(question("b1", "bob", 2800)).await.unwrap();
    // The same question again is not another one.
    store.put(question("b1", "bob", 2800)).await.unwrap();
    assert_eq!(ids(&store).await, ["a3", "b1", "e1"]);
}

#[tokio::test]
async fn an_answer_counts_to_what_its_question_takes() {
    let store = MemoryPending::new().max_bytes(4000, 10_000);
    store.put(question("a", "ada", 1000)).await.unwrap();
    let edited = |bytes: usize| Approval::edited(json!({ "a": "x".repeat(bytes) }));
    assert!(store.answer("a", edited(4000)).await.is_err());
    assert!(store.get("a").await.unwrap().unwrap().answer.is_none());
    assert!(store.answer("a", edited(1000)).await.unwrap());
    assert!(store.answer("none", edited(4000)).await.is_ok_and(|found| !found));
}

#[tokio::test(start_paused = true)]
async fn questions_that_are_over_are_not_kept_until_the_store_is_full() {
    let store = MemoryPending::with_max(2, 2).max_bytes(4000, 5000);
    store.put(question("a", "ada", 2000)).await.unwrap();
    store.put(question("e", "eve", 2000)).await.unwrap();
    assert!(store.put(question("b", "bob", 2000)).await.is_err());
    tokio::time::advance(Duration::from_secs(3605)).await;
    store.put(question("b", "bob", 2000)).await.unwrap();
    store.put(question("c", "cal", 2000)).await.unwrap();
    assert_eq!(ids(&store).await, ["b", "c"]);
}

fn grant(id: &str, scope: &GrantScope) -> Grant {
    let fields: Value = json!({
        "id": id, "effect": "allow", "scope": scope, "owner": owner("ada"), "tool": tool("t"),
        "expires": now() + Duration::from_secs(3600),
    });
    serde_json::from_value(fields).unwrap()
}

#[tokio::test(start_paused = true)]
async fn grants_are_bounded_in_bytes_and_go_when_they_have_ended() {
    let long = |id: &str, bytes: usize| {
        let rule: ArgumentRule = serde_json::from_value(json!({ "path": "/a", "equals": format!("{id}{}", "x".repeat(bytes)) })).unwrap();
        grant(id, &GrantScope::Arguments(vec![rule]))
    };
    assert!(MemoryGrants::new().add(long("a", 64 * 1024)).await.is_err());
    let store = MemoryGrants::with_max(10).max_bytes(4000, 7000);
    store.add(long("a", 3000)).await.unwrap();
    assert!(store.add(long("b", 4000)).await.is_err());
    store.add(long("b", 3000)).await.unwrap();
    assert!(store.add(long("c", 3000)).await.is_err());
    assert!(store.revoke("a").await.unwrap());
    store.add(long("c", 3000)).await.unwrap();
    tokio::time::advance(Duration::from_secs(3605)).await;
    for id in ["d", "e"] {
        store.add(long(id, 3000)).await.unwrap();
    }
    assert_eq!(store.list(None).await.unwrap().len(), 2);
}

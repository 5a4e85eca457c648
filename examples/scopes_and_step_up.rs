//! Scopes and step-up on the tools of the quickstart: a client comes with too little, reads in the answer what is needed, asks its
//! authorization server for that, and calls again.
//!
//! Run with `cargo run --example scopes_and_step_up`. It works in a directory of its own, and takes that away again.

#![allow(clippy::needless_pass_by_value, reason = "a tool function takes what it takes by value")]

#[path = "quickstart/confined.rs"]
mod confined;
#[path = "quickstart/tools.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod tools;
#[path = "quickstart/walk.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod walk;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use serde_json::{Value, json};
use toolstack::{
    Refusal, RefusalKind, ServiceBuilderExt, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        authenticate::{BearerToken, TokenError, Verified},
        permission::{ArgumentRule, Missing},
        scopes::ScopeRules,
        step_up::StepUpRule,
    },
    model::Principal,
    select::ToolSelector,
};
use tower::ServiceBuilder;

use self::confined::Confined;

/// Whoever gives tokens away. A real one stands elsewhere, and signs them.
#[derive(Clone, Default)]
struct Login(Arc<Mutex<HashMap<String, Principal>>>);

impl Login {
    /// A token of Ada's with these scopes, and how she signed in for it.
    fn token(&self, scopes: &BTreeSet<String>, acr: Option<&str>) -> String {
        let mut ada = Principal::new("ada");
        ada.scopes.clone_from(scopes);
        ada.acr = acr.map(str::to_owned);
        ada.auth_time = Some(SystemTime::now());
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = format!("token-{}", tokens.len());
        tokens.insert(token.clone(), ada);
        token
    }

    fn look_up(&self, token: &BearerToken) -> Result<Verified, TokenError> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token.expose()).cloned().map(Verified::new).ok_or_else(|| TokenError::invalid("unknown"))
    }
}

fn stack(dir: &Confined, login: &Login) -> Result<Stack, Box<dyn std::error::Error>> {
    let scopes = ScopeRules::new()
        .require(ToolSelector::new().read_only(true), ["files:read"])
        .named("write_file", ["files:read", "files:write"])?
        .require(ToolSelector::new().tag("admin"), ["admin"])
        .implies("admin", ["files:write"])
        .implies("files:write", ["files:read"]);
    let overwrite = StepUpRule::new(ToolSelector::new().name("write_file")?)
        .argument(ArgumentRule::equals("/overwrite", true)?.missing(Missing::Differs))
        .acr(["mfa"])
        .max_age(Duration::from_secs(300));
    let login = login.clone();
    Ok(ServiceBuilder::new()
        .authenticate(move |token: BearerToken| std::future::ready(login.look_up(&token)))
        .scopes(scopes)
        .step_up([overwrite])
        .service(tools::tools(dir))
        .into_stack())
}

/// A client that has a token, and gets a better one when it is told how. Not more than twice: a server might ask forever.
struct Client<'a> {
    stack: &'a Stack,
    login: &'a Login,
    token: Option<String>,
    scopes: BTreeSet<String>,
}

impl Client<'_> {
    async fn call(&mut self, tool: &str, arguments: Value) -> ToolResponse {
        let mut left = 2;
        loop {
            let mut call = ToolCall::new(tool, arguments.clone());
            if let Some(token) = &self.token {
                // As a face over HTTP hands the headers of its request inward.
                let header = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token is ASCII");
                call.context.extensions_mut().insert(HeaderMap::from_iter([(AUTHORIZATION, header)]));
            }
            let answer = self.stack.run_call(call).await;
            let challenge = answer.refusal().and_then(Refusal::bearer_challenge);
            let told = challenge.as_ref().map_or_else(|| answer.outcome().to_string(), |told| format!("{} {told}", told.status));
            println!("{tool:<12} {told}");
            let Some(challenge) = challenge.filter(|_| left > 0) else { return answer };
            left -= 1;
            // What it had stays, and what is asked for is added.
            self.scopes.extend(challenge.scopes);
            self.token = Some(self.login.token(&self.scopes, challenge.acr_values.first().map(String::as_str)));
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::temp_dir().join(format!("toolstack-scopes-{}", std::process::id()));
    std::fs::create_dir_all(&root)?;
    let login = Login::default();
    let stack = stack(&Confined::open(&root)?, &login)?;
    println!("{}\n", stack.describe().await);
    assert!(stack.lint().await.is_empty());

    let mut client = Client { stack: &stack, login: &login, token: None, scopes: BTreeSet::new() };
    // Nobody is let in without a token; the first one has no scopes, and is traded for one that has.
    assert!(client.call("list_dir", json!({})).await.is_completed());
    assert_eq!(client.scopes.iter().collect::<Vec<_>>(), ["files:read"]);

    assert!(client.call("write_file", json!({ "path": "a.txt", "content": "one" })).await.is_completed());
    // To overwrite takes a second factor, and a sign-in of the last five minutes.
    assert!(client.call("write_file", json!({ "path": "a.txt", "content": "two", "overwrite": true })).await.is_completed());
    assert_eq!(std::fs::read_to_string(root.join("a.txt"))?, "two");

    // A token that nobody gave away is told no reason.
    let mut forged = ToolCall::new("list_dir", json!({}));
    forged.context.extensions_mut().insert(BearerToken::new("made-up")?);
    let answer = stack.run_call(forged).await;
    assert_eq!(answer.refusal().map(Refusal::kind), Some(RefusalKind::Unauthenticated));
    assert!(!answer.as_text().unwrap_or_default().contains("unknown"));

    // One scope stands for the others.
    client.scopes = BTreeSet::from(["admin".to_owned()]);
    client.token = Some(login.token(&client.scopes, None));
    assert!(client.call("disk_usage", json!({})).await.is_completed());
    std::fs::remove_dir_all(root)?;
    Ok(())
}

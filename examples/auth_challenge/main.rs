//! A tool that needs a sign-in: the model is told where the person has to go, the person goes there, the model calls again.
//!
//! Run with `cargo run --example auth_challenge --features oauth`. The authorization server, and the mail behind it, are in `server.rs`, on
//! a port of this machine.

mod server;

use std::sync::Arc;

use http::{Request, StatusCode, header::AUTHORIZATION};
use serde_json::{Value, json};
use toolstack::{
    BoxError, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt,
    credential::{
        AuthChallenge, CredentialProvider, CredentialRejected, Token,
        oauth::{Client, DeviceFlow, HttpClient, Https},
    },
    tool::{State, ToolError, tool_fn_with_state},
};
use tower::ServiceBuilder;

use self::server::Server;

const SCOPE: &str = "mail.read";

/// Where the mail is, and what speaks to it.
#[derive(Clone)]
struct Mail {
    at: Arc<str>,
    http: Https,
}

/// The tool. It knows that it needs a token, and not where tokens come from.
async fn read_inbox(State(mail): State<Mail>, token: Option<Token>) -> Result<String, ToolError> {
    let token = token.ok_or_else(|| AuthChallenge::new("The mail needs a sign-in.").scope(SCOPE))?;
    let request = Request::get(format!("{}/inbox", mail.at)).header(AUTHORIZATION, token.bearer()?).body(Vec::new())?;
    let answer = mail.http.send(request).await.map_err(|error| ToolError::new("The mail does not answer.").with_source(error))?;
    match answer.status() {
        StatusCode::OK => Ok(String::from_utf8(answer.into_body())?),
        StatusCode::UNAUTHORIZED => Err(CredentialRejected::new(SCOPE).token(token).into()),
        status => Err(ToolError::new(format!("The mail answers {status}."))),
    }
}

fn stack(at: &str) -> Result<Stack, BoxError> {
    let client = Client::new("example-agent", &format!("{at}/token"))?.device_url(&format!("{at}/device"))?;
    let mail = Mail { at: at.into(), http: Https::new()? };
    let tools = Router::new().tool(tool_fn_with_state("read_inbox", mail, read_inbox).describe("Reads the inbox").read_only());
    Ok(ServiceBuilder::new().challenge(DeviceFlow::new(client).cached()).service(tools).into_stack())
}

/// Calls the tool and prints what the model reads.
async fn call(stack: &Stack) -> toolstack::ToolResponse {
    println!("model   calls read_inbox");
    let answer = stack.call_tool("read_inbox", json!({})).await;
    println!("tool    {}", answer.as_text().unwrap_or_default());
    answer
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let server = Server::default();
    let at = server.listen().await?;
    let stack = stack(&at)?;
    assert!(stack.lint().await.is_empty());

    // Nobody has signed in: the answer says where, in the words of MCS.
    let answer = call(&stack).await;
    assert_eq!(answer.refusal().map(toolstack::Refusal::kind), Some(RefusalKind::AuthRequired));
    let asked: Value = serde_json::from_str(&answer.as_text().unwrap_or_default())?;
    assert_eq!((&asked["auth_required"], &asked["scope"]), (&json!(true), &json!(SCOPE)));
    let (url, code) = (asked["url"].as_str().unwrap_or_default(), asked["code"].as_str().unwrap_or_default());

    // The model passes it on. The person opens the address and enters the code.
    println!("person  opens {url} and enters {code}");
    assert_eq!(url, format!("{at}/verify"));
    assert!(server.approve(code));

    let answer = call(&stack).await;
    assert_eq!(answer.as_text().as_deref(), Some("1 message: lunch at noon?"));
    assert_eq!(server.sign_ins(), 1);

    // The token is kept for later calls.
    call(&stack).await;
    assert_eq!(server.granted(), 1);

    // It is revoked. The call was made once more already, with the token that was kept, so it is not made a third time: the answer says
    // that another one is needed, and the layer throws this one away. The next call gets another one by the refresh token, and nobody has
    // to sign in again.
    println!("server  revokes the token");
    server.revoke();
    let answer = call(&stack).await;
    assert_eq!(answer.refusal().map(toolstack::Refusal::kind), Some(RefusalKind::AuthRequired));
    assert!(call(&stack).await.is_completed());
    assert_eq!((server.granted(), server.sign_ins()), (2, 1));
    println!("\n{}", stack.describe().await);
    Ok(())
}

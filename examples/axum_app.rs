//! A stack within an ordinary axum service: `GET /tools` lists the tools, `POST /tools/{name}` calls one.
//!
//! Run with `cargo run --example axum_app`, which serves on a free port, talks to itself and ends; or with
//! `cargo run --example axum_app -- 127.0.0.1:8000`, which serves until ctrl-c.

use std::{io, net::SocketAddr, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use toolstack::{
    ListTools, RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, ToolCall,
    model::{Arguments, Context, Outcome, Principal},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn stack() -> Stack {
    let tools = Router::new()
        .tool(sync_tool_fn("add", |args: Add| args.a + args.b).describe("Adds two numbers").read_only())
        .tool(sync_tool_fn("whoami", |context: Context| context.principal().subject.clone()).tag("members"));
    ServiceBuilder::new()
        .catch_panic()
        .catch_error()
        .visibility(|tool, context| !tool.has_tag("members") || !context.principal().is_anonymous())
        .call_timeout(Duration::from_secs(10))
        .load_shed()
        .concurrency_limit(64)
        .service(tools)
        .into_stack()
}

/// The stack is built once; axum hands a clone of it to each request.
fn app(stack: Stack) -> axum::Router {
    axum::Router::new()
        .route("/tools", get(list))
        .route("/tools/{name}", post(call))
        .layer(middleware::from_fn(authenticate))
        .with_state(stack)
}

/// Finds out who asks, and hands it inward. Here a token is a name; yours would be verified.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let mut context = Context::new();
    if let Some(token) = request.headers().get(AUTHORIZATION) {
        match token.to_str().ok().and_then(|token| token.strip_prefix("Bearer ")).filter(|name| *name == "ada") {
            Some(name) => context.set_principal(Principal::new(name)),
            None => return (StatusCode::UNAUTHORIZED, "this token is not known\n").into_response(),
        }
    }
    request.extensions_mut().insert(context);
    next.run(request).await
}

async fn list(State(stack): State<Stack>, Extension(context): Extension<Context>) -> Response {
    Json(stack.run_list(ListTools::new().with_context(context)).await).into_response()
}

/// The body is the arguments, as they are: what is wrong with them is said in the answer. A client that goes away drops the call.
async fn call(State(stack): State<Stack>, Path(name): Path<String>, Extension(context): Extension<Context>, body: String) -> Response {
    let arguments = if body.is_empty() { Arguments::empty() } else { Arguments::from_text(body) };
    let answer = stack.run_call(ToolCall::new(name, arguments).with_context(context)).await;
    let status = match answer.outcome() {
        Outcome::Refused(RefusalKind::UnknownTool) => StatusCode::NOT_FOUND,
        Outcome::Refused(RefusalKind::InvalidArguments) => StatusCode::BAD_REQUEST,
        Outcome::Refused(RefusalKind::Overloaded) => StatusCode::SERVICE_UNAVAILABLE,
        // A tool that failed has answered.
        _ => StatusCode::OK,
    };
    (status, Json(answer)).into_response()
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let at = listener.local_addr()?;
    let server = axum::serve(listener, app(stack()));
    if address.is_some() {
        println!("serving http://{at}/tools until ctrl-c");
        return server.with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) }).await;
    }
    tokio::select! {
        ended = server => ended,
        done = talk(at) => done,
    }
}

/// What a client would ask.
async fn talk(at: SocketAddr) -> io::Result<()> {
    let (status, added) = request(at, "POST /tools/add", "", r#"{"a":9007199254740993,"b":1}"#).await?;
    assert_eq!((status, &added["content"][0]["text"]), (200, &Value::from("9007199254740994")));

    // Nobody vouched for this one, so it sees one tool and can call one.
    let (_, tools) = request(at, "GET /tools", "", "").await?;
    assert_eq!((tools["tools"].as_array().map(Vec::len), &tools["tools"][0]["name"]), (Some(1), &Value::from("add")));
    assert_eq!(request(at, "POST /tools/whoami", "", "").await?.0, 404);

    let (status, me) = request(at, "POST /tools/whoami", "Authorization: Bearer ada\r\n", "").await?;
    assert_eq!((status, &me["content"][0]["text"]), (200, &Value::from("ada")));

    assert_eq!(request(at, "GET /tools", "Authorization: Bearer eve\r\n", "").await?.0, 401);
    assert_eq!(request(at, "POST /tools/add", "", "{").await?.0, 400);
    Ok(())
}

/// HTTP by hand, as small as it gets: one request for each connection.
async fn request(at: SocketAddr, line: &str, headers: &str, body: &str) -> io::Result<(u16, Value)> {
    let mut connection = TcpStream::connect(at).await?;
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    connection.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    println!("{line} {status}\n  {}", body.trim_end());
    Ok((status, serde_json::from_str(body).unwrap_or_default()))
}

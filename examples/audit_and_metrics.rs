//! A thousand calls of the quickstart's tools, as an operator sees them: counts and latencies in a table, a record of each, and Prometheus
//! text over HTTP.
//!
//! Run with `cargo run --features prometheus --example audit_and_metrics`; with `-- serve 127.0.0.1:9464` it goes on serving `/metrics`.

#[path = "quickstart/confined.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod confined;
#[path = "quickstart/tools.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod tools;
#[path = "quickstart/walk.rs"]
#[allow(dead_code, reason = "the quickstart uses more of it")]
mod walk;

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use axum::{http::header::CONTENT_TYPE, routing::get};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use toolstack::{
    BoxError, Refusal, RefusalKind, ServiceBuilderExt, Stack, StackExt,
    layer::{
        audit,
        telemetry::{Metrics, Snapshot},
    },
};
use tower::ServiceBuilder;

const CALLS: usize = 1_000;

/// What a model calls, over and over.
fn call(number: usize) -> (&'static str, Value) {
    match number % 10 {
        0..=3 => ("list_dir", json!({})),
        4..=6 => ("read_file", json!({ "path": "notes.md" })),
        7 => ("read_file", json!({ "path": "gone.md" })),
        8 if number % 20 == 8 => ("disk_usage", json!({})),
        8 => ("no_such_tool", json!({ "password": "hunter2" })),
        _ if number % 100 == 9 => ("demo_slow", json!({})),
        _ => ("search", json!({ "text": "tower" })),
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let serve: Option<SocketAddr> = match std::env::args().skip_while(|argument| argument != "serve").nth(1) {
        Some(address) => Some(address.parse()?),
        None => None,
    };
    let dir = Scratch::new()?;
    let metrics = Metrics::new();
    let (sink, mut records) = audit::channel(2 * CALLS);
    let stack = ServiceBuilder::new()
        .catch_panic()
        .telemetry(&metrics)
        .audit(sink)
        .gate("no_usage", |call| match call.name().as_str() {
            "disk_usage" => Err(Refusal::new(RefusalKind::Denied, "The disk is nobody's business.").with_by("no_usage")),
            _ => Ok(()),
        })
        .call_timeout(Duration::from_millis(500))
        .service(tools::tools(&confined::Confined::open(&dir.0)?).tool(metrics.tool()))
        .into_stack();

    drive(&stack).await?;
    let seen = metrics.snapshot();
    print(&seen);

    let mut recorded = 0;
    while let Some(entry) = records.try_recv() {
        let record = entry.record().ok_or("no record was lost")?;
        if recorded < 3 {
            println!("{}", serde_json::to_string(record)?);
        }
        recorded += 1;
    }
    println!("… {recorded} records\n");

    let text = scrape(&metrics, serve).await?;
    text.lines().filter(|line| line.contains("disk_usage") && !line.contains("bucket")).for_each(|line| println!("{line}"));

    // What was asked, what was counted, what was recorded and what is shown is the same.
    let lifetime = seen.lifetime();
    assert_eq!((lifetime.total(), recorded), (CALLS as u64, CALLS));
    assert_eq!((seen.tools["read_file"].lifetime.total(), seen.tools["read_file"].lifetime.errors()), (400, 100));
    assert_eq!(seen.tools["demo_slow"].lifetime.cancelled(), 5);
    assert_eq!(seen.in_flight(), 0);
    assert!(text.contains("toolstack_calls_total{tool=\"disk_usage\",outcome=\"denied\"} 50\n"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("no_such_tool"), "what a model makes up is in no label");

    // A model may ask too, where it is shown the tool.
    let answer = stack.call_tool("get_metrics", json!({})).await;
    let answer: Value = serde_json::from_str(&answer.as_text().unwrap_or_default())?;
    assert_eq!(answer["tool_telemetry"]["total_calls"], CALLS);
    Ok(())
}

/// Makes all calls, fifty at a time; nobody waits for the slow tool for long, and for half of its calls not at all.
async fn drive(stack: &Stack) -> Result<(), BoxError> {
    let mut running = JoinSet::new();
    for number in 0..CALLS {
        if running.len() == 50 {
            running.join_next().await.transpose()?;
        }
        let stack = stack.clone();
        running.spawn(async move {
            let (name, arguments) = call(number);
            let call = stack.call_tool(name, arguments);
            if name == "demo_slow" && number % 200 == 9 {
                // The caller gives up.
                let _ = timeout(Duration::from_millis(20), call).await;
            } else {
                call.await;
            }
        });
    }
    while running.join_next().await.transpose()?.is_some() {}
    Ok(())
}

fn print(seen: &Snapshot) {
    let milliseconds = |time: Option<Duration>| format!("{:.2}", time.unwrap_or_default().as_secs_f64() * 1e3);
    println!(
        "{:<14}{:>6}{:>9}{:>7}{:>11}{:>10}{:>10}{:>10}  errors",
        "tool", "calls", "success", "runs", "cancelled", "p50 ms", "p95 ms", "p99 ms"
    );
    for (name, tool) in &seen.tools {
        let errors: Vec<_> = tool.lifetime.top_errors(5).into_iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
        println!(
            "{name:<14}{:>6}{:>8.1}%{:>7}{:>11}{:>10}{:>10}{:>10}  {}",
            tool.lifetime.total(),
            tool.lifetime.success_rate() * 100.0,
            tool.in_flight,
            tool.lifetime.cancelled(),
            milliseconds(tool.latency.quantile(0.50)),
            milliseconds(tool.latency.quantile(0.95)),
            milliseconds(tool.latency.quantile(0.99)),
            errors.join(", "),
        );
    }
    println!();
}

/// Serves the metrics over HTTP, and fetches them once as Prometheus would. Goes on where an address is given.
async fn scrape(metrics: &Metrics, serve: Option<SocketAddr>) -> Result<String, BoxError> {
    let shown = metrics.clone();
    let text = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let app = axum::Router::new().route("/metrics", get(async move || ([(CONTENT_TYPE, text)], shown.prometheus())));
    let listener = TcpListener::bind(serve.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))).await?;
    let address = listener.local_addr()?;
    println!("metrics at http://{address}/metrics");
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer has a body")?;
    assert!(head.starts_with("HTTP/1.1 200") && head.contains(text), "{head}");
    if serve.is_some() {
        server.await??;
    }
    Ok(body.to_owned())
}

/// A directory with one file, that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("toolstack-metrics-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("notes.md"), "A tool call is a tower service.\n")?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

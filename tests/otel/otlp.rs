use std::{
    io::{Read, Write},
    net::TcpStream,
};

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::{
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use serde_json::json;
use toolstack::{
    Router, ServiceBuilderExt, StackExt, ToolCall, ToolResponse,
    layer::telemetry::{Metrics, WireAttributes},
    testing::Probe,
};
use tower::ServiceBuilder;

use super::{collector::COLLECTOR, only, set_up};

/// The client of the exporter: one connection a request, and it waits for the answer.
#[derive(Debug)]
struct Client;

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let mut stream = TcpStream::connect(head.uri.authority().expect("an address").as_str())?;
        write!(stream, "{} {} HTTP/1.1\r\nhost: collector\r\ncontent-length: {}\r\n", head.method, head.uri.path(), body.len())?;
        for (name, value) in &head.headers {
            write!(stream, "{name}: {}\r\n", value.to_str()?)?;
        }
        stream.write_all(b"\r\n")?;
        stream.write_all(&body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(Response::new(Bytes::new()))
    }
}

pub(crate) fn exporter() -> SpanExporter {
    let endpoint = format!("http://{}/v1/traces", COLLECTOR.address);
    let builder = SpanExporter::builder().with_http().with_http_client(Client).with_protocol(Protocol::HttpBinary);
    builder.with_endpoint(endpoint).build().expect("it has a client")
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()?;
    match value {
        Value::StringValue(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_collector_gets_spans_with_names_kinds_attributes_and_status() {
    set_up();
    let stack = ServiceBuilder::new().telemetry(&Metrics::new()).service(
        Router::new().tool(Probe::new().tool("exported")).tool(Probe::answering(|_| ToolResponse::error("no")).tool("exported_failure")),
    );
    let mut call = ToolCall::new("exported", json!({}));
    call.context.extensions_mut().insert(WireAttributes::new("tools/call").protocol_version("2026-07-28"));
    stack.run_call(call).await;
    stack.call_tool("exported_failure", json!({})).await;

    let span = only(COLLECTOR.spans("execute_tool exported"));
    assert_eq!(span.kind(), SpanKind::Server);
    assert_eq!(attribute(&span, "gen_ai.operation.name").as_deref(), Some("execute_tool"));
    assert_eq!(attribute(&span, "gen_ai.tool.name").as_deref(), Some("exported"));
    assert_eq!(attribute(&span, "mcp.method.name").as_deref(), Some("tools/call"));
    assert_eq!(attribute(&span, "mcp.protocol.version").as_deref(), Some("2026-07-28"));
    assert_eq!(span.status.map(|status| status.code()), Some(StatusCode::Unset));

    let failed = only(COLLECTOR.spans("execute_tool exported_failure"));
    assert_eq!(failed.kind(), SpanKind::Internal);
    assert_eq!(attribute(&failed, "error.type").as_deref(), Some("tool_error"));
    assert_eq!(failed.status.map(|status| status.code()), Some(StatusCode::Error));
}

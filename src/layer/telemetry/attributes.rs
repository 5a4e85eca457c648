use std::{borrow::Cow, net::SocketAddr};

use smol_str::SmolStr;
use tracing::Span;

use crate::model::Context;

/// What a face knows of how an MCP request came, for the span of its operation.
///
/// A face puts it into the context's [extensions](Context::extensions_mut). The span is one of a server then; without, one of this program.
///
/// ```
/// use toolstack::{layer::telemetry::WireAttributes, model::Context};
///
/// let mut context = Context::new();
/// context.extensions_mut().insert(WireAttributes::new("tools/call").protocol_version("2025-11-25").transport("pipe"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireAttributes {
    /// `mcp.method.name`.
    pub method: Cow<'static, str>,
    /// `mcp.protocol.version`.
    pub protocol_version: Option<SmolStr>,
    /// `jsonrpc.request.id`.
    pub request_id: Option<SmolStr>,
    /// `network.transport`: `tcp`, `quic`, or `pipe` for stdio.
    pub transport: Option<Cow<'static, str>>,
    /// `network.protocol.name` and `network.protocol.version`, such as `http` and `1.1`.
    pub network_protocol: Option<(Cow<'static, str>, SmolStr)>,
    /// `client.address` and `client.port`.
    pub client: Option<SocketAddr>,
}

impl WireAttributes {
    /// Of a request of this method.
    #[must_use]
    pub fn new(method: impl Into<Cow<'static, str>>) -> Self {
        let method = method.into();
        Self { method, protocol_version: None, request_id: None, transport: None, network_protocol: None, client: None }
    }

    /// Sets the version of MCP that is spoken.
    #[must_use]
    pub fn protocol_version(mut self, version: impl AsRef<str>) -> Self {
        self.protocol_version = Some(SmolStr::new(version));
        self
    }

    /// Sets the id of the JSON-RPC request.
    #[must_use]
    pub fn request_id(mut self, id: impl AsRef<str>) -> Self {
        self.request_id = Some(SmolStr::new(id));
        self
    }

    /// Sets the transport: `tcp`, `quic`, or `pipe` for stdio.
    #[must_use]
    pub fn transport(mut self, transport: impl Into<Cow<'static, str>>) -> Self {
        self.transport = Some(transport.into());
        self
    }

    /// Sets the protocol below MCP and its version.
    #[must_use]
    pub fn network_protocol(mut self, name: impl Into<Cow<'static, str>>, version: impl AsRef<str>) -> Self {
        self.network_protocol = Some((name.into(), SmolStr::new(version)));
        self
    }

    /// Sets where the client is.
    #[must_use]
    pub fn client(mut self, address: SocketAddr) -> Self {
        self.client = Some(address);
        self
    }

    /// What a face left in the context.
    pub(super) fn of(context: &Context) -> Option<&Self> {
        context.extensions().get()
    }

    pub(super) fn record(&self, span: &Span) {
        span.record("mcp.method.name", &*self.method);
        if let Some(version) = &self.protocol_version {
            span.record("mcp.protocol.version", version.as_str());
        }
        if let Some(id) = &self.request_id {
            span.record("jsonrpc.request.id", id.as_str());
        }
        if let Some(transport) = &self.transport {
            span.record("network.transport", &**transport);
        }
        if let Some((name, version)) = &self.network_protocol {
            span.record("network.protocol.name", &**name);
            span.record("network.protocol.version", version.as_str());
        }
        if let Some(client) = self.client {
            span.record("client.address", tracing::field::display(client.ip()));
            span.record("client.port", client.port());
        }
    }
}

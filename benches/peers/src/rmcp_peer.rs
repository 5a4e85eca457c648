//! `rmcp`: its `ToolRouter`, built once and shared, which is its best configuration.

use std::borrow::Cow;

use rmcp::{
    RoleServer, ServerHandler,
    handler::server::{
        router::tool::ToolRouter,
        tool::{ToolCallContext, schema_for_type},
        wrapper::Parameters,
    },
    model::{CallToolRequestParams, CallToolResponse, JsonObject, ListToolsResult, NumberOrString, Tool},
    service::{Peer, RequestContext, RunningService, serve_directly},
};

use crate::support::{Add, NAME, run};

pub struct Server;

impl ServerHandler for Server {}

pub struct Rmcp {
    router: ToolRouter<Server>,
    running: RunningService<RoleServer, Server>,
    _client: tokio::io::DuplexStream,
}

impl Rmcp {
    /// Needs a runtime to be entered: a peer, which each context holds, is had only from a running server.
    pub fn new(tools: usize) -> Self {
        let (server, client) = tokio::io::duplex(1024);
        let tool = |name: Cow<'static, str>| {
            (Tool::new(name, "", schema_for_type::<Add>()), |Parameters(args): Parameters<Add>| (args.a + args.b).to_string())
        };
        let router = (1..tools).fold(ToolRouter::new().with_route(tool(NAME.into())), |router, i| {
            router.with_route(tool(format!("tool_{i}").into()))
        });
        Self { router, running: serve_directly(Server, server, None), _client: client }
    }

    pub fn peer(&self) -> Peer<RoleServer> {
        self.running.peer().clone()
    }

    /// One call, with the context that each call needs.
    pub fn call(&self, arguments: JsonObject) -> CallToolResponse {
        let context = RequestContext::new(NumberOrString::Number(1), self.peer());
        let params = CallToolRequestParams::new(NAME).with_arguments(arguments);
        run(self.router.call(ToolCallContext::new(self.running.service(), params, context))).expect("no error")
    }

    /// What a list costs each time: it is put together and written.
    pub fn list(&self) -> Vec<u8> {
        serde_json::to_vec(&ListToolsResult::with_all_items(self.router.list_all())).expect("a list")
    }
}

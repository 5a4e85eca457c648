//! `tower-mcp`: a tool by itself, and its `McpRouter` as the `tower::Service` that it is.

use serde_json::{Value, json};
use tower::Service;
use tower_mcp::{
    CallToolResult, McpRouter, Tool, ToolBuilder,
    protocol::{CallToolParams, ListToolsParams, McpNotification, McpRequest, McpResponse, RequestId},
    router::{RouterRequest, RouterResponse},
};

use crate::support::{Add, NAME, run};

pub fn tool(name: &str) -> Tool {
    ToolBuilder::new(name)
        .handler(|args: Add| async move { Ok(CallToolResult::text((args.a + args.b).to_string())) })
        .build()
}

pub struct TowerMcp(McpRouter);

impl TowerMcp {
    pub fn new(tools: usize) -> Self {
        let router = (1..tools).fold(McpRouter::new().tool(tool(NAME)), |router, i| router.tool(tool(&format!("tool_{i}"))));
        let mut this = Self(router);
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "0" } });
        let hello = this.request(McpRequest::Initialize(serde_json::from_value(hello).expect("params")));
        assert!(hello.inner.is_ok(), "initialized");
        this.0.handle_notification(McpNotification::Initialized);
        this
    }

    fn request(&mut self, request: McpRequest) -> RouterResponse {
        run(self.0.call(RouterRequest::new(RequestId::Number(1), request))).expect("infallible")
    }

    /// One call.
    pub fn call(&mut self, arguments: Value) -> RouterResponse {
        let params =
            CallToolParams { name: NAME.to_owned(), arguments, input_responses: None, request_state: None, meta: None, task: None };
        self.request(McpRequest::CallTool(params))
    }

    /// What a list costs each time.
    pub fn list(&mut self) -> Vec<u8> {
        match self.request(McpRequest::ListTools(ListToolsParams { cursor: None, meta: None })).inner {
            Ok(McpResponse::ListTools(list)) => serde_json::to_vec(&list).expect("a list"),
            other => panic!("not a list: {other:?}"),
        }
    }
}

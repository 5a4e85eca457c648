use tracing::{Span, field::Empty, info_span};

use super::attributes::WireAttributes;
use crate::{
    model::{CallId, Context, Outcome},
    tool::ToolEntry,
};

/// A call id of a client's is shown up to this many characters.
const ID_CHARS: usize = 128;

/// A span with what the spans of all operations have: its name, then what else this one has.
macro_rules! span {
    ($name:literal, $context:expr, { $($field:tt)* }) => {
        info_span!(
            $name,
            $($field)*
            otel.kind = kind($context),
            otel.status_code = Empty,
            gen_ai.conversation.id = Empty,
            mcp.method.name = Empty,
            mcp.protocol.version = Empty,
            mcp.session.id = Empty,
            jsonrpc.request.id = Empty,
            network.transport = Empty,
            network.protocol.name = Empty,
            network.protocol.version = Empty,
            client.address = Empty,
            client.port = Empty,
            error.type = Empty,
            toolstack.outcome = Empty,
            toolstack.refused_by = Empty,
        )
    };
}

/// The span of a call; `None` where nobody listens.
#[inline]
pub(super) fn of_call(id: &CallId, context: &Context, tool: Option<&ToolEntry>, session: bool) -> Option<Span> {
    let span = span!("execute_tool", context, {
        otel.name = %Name(tool),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool.map(|tool| tool.spec().name.as_str()),
        gen_ai.tool.type = "function",
        gen_ai.tool.call.id = %format_args!("{:.ID_CHARS$}", id.to_string()),
    });
    started(span, context, session)
}

/// The span of a list; `None` where nobody listens.
pub(super) fn of_list(context: &Context, session: bool) -> Option<Span> {
    started(span!("tools/list", context, { otel.name = "tools/list", }), context, session)
}

/// Notes how the operation ended.
pub(super) fn end(span: &Span, outcome: Outcome, refused_by: Option<&str>) {
    span.record("toolstack.outcome", outcome.as_str());
    if outcome.is_error() {
        span.record("error.type", outcome.as_str());
        span.record("otel.status_code", "ERROR");
    }
    if let Some(layer) = refused_by {
        span.record("toolstack.refused_by", layer);
    }
}

#[inline]
fn started(span: Span, context: &Context, session: bool) -> Option<Span> {
    if span.is_disabled() {
        return None;
    }
    if let Some(wire) = WireAttributes::of(context) {
        wire.record(&span);
    }
    if session && let Some(id) = context.session() {
        let key = if WireAttributes::of(context).is_some() { "mcp.session.id" } else { "gen_ai.conversation.id" };
        span.record(key, id);
    }
    Some(span)
}

fn kind(context: &Context) -> &'static str {
    if WireAttributes::of(context).is_some() { "server" } else { "internal" }
}

/// The name of a call's span: only that of a tool that exists, so that there are few.
struct Name<'a>(Option<&'a ToolEntry>);

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("execute_tool")?;
        self.0.map_or(Ok(()), |tool| write!(f, " {}", tool.spec().name))
    }
}

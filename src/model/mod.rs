//! The plain data of a tool call: what is asked, by whom, with what, and what came of it.
//!
//! Nothing here runs anything. The serde forms are those of the [Model Context Protocol][mcp], revision 2026-07-28, and fields
//! that this crate does not know survive a round trip.
//!
//! [mcp]: https://modelcontextprotocol.io/specification

mod annotations;
mod arguments;
mod blocks;
pub(crate) mod call;
mod cancellation;
pub(crate) mod canonical;
mod content;
mod context;
pub(crate) mod feed;
mod id;
mod interim;
mod list;
mod moment;
mod name;
mod outcome;
pub(crate) mod owned;
pub(crate) mod permit;
mod principal;
mod progress;
mod raw;
pub(crate) mod remark;
mod response;
mod result;
mod secret;
mod shown;
mod spec;
pub(crate) mod strict;
mod trace;
pub(crate) mod trail;

pub use self::{
    annotations::ToolAnnotations,
    arguments::{Arguments, ArgumentsError},
    call::ToolCall,
    cancellation::Cancellation,
    content::{BlockExtra, Content, ContentAnnotations, Media, Resource, ResourceLink, Role, Text},
    context::{Context, Origin, Resume},
    id::CallId,
    interim::{InputRequired, TaskHandle},
    list::{ListTools, ToolList},
    name::{NameError, ToolName},
    outcome::Outcome,
    principal::Principal,
    progress::{Progress, ProgressUpdate},
    raw::{RawObject, RawObjectError},
    remark::Remark,
    response::ToolResponse,
    result::ToolResult,
    secret::Secret,
    spec::{Fingerprint, Icon, SchemaError, ToolSpec},
    trace::TraceContext,
};
pub(crate) use self::{context::Seal, progress::Listen};

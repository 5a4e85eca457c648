#![doc = include_str!("docs/crate.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder_ext;
pub mod credential;
pub mod describe;
pub mod error;
pub mod guide;
pub mod layer;
mod macros;
pub mod middleware;
pub mod model;
pub mod operation;
pub mod router;
pub mod run;
pub mod select;
mod service_ext;
pub mod stack;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;

#[doc(inline)]
pub use self::{
    builder_ext::ServiceBuilderExt,
    error::{BoxError, Refusal, RefusalKind},
    model::{ListTools, ToolCall, ToolResponse},
    router::Router,
    service_ext::StackExt,
    stack::Stack,
    tool::{Tool, tool_fn},
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

//! Checks the arguments of calls, and the structured content of results, against the schemas of the tools.
//!
//! A tool that deserialises its arguments checks their shape; its schema says more, and says it before anybody is asked, charged or
//! kept waiting. The [engine](Validator) is yours to choose: JSON Schema 2020-12 with the feature `jsonschema`, or anything that compiles a schema
//! to a [`Check`]. A schema is compiled once for each registration of a tool.
//!
//! # Example
//!
#![cfg_attr(feature = "jsonschema", doc = "```")]
#![cfg_attr(not(feature = "jsonschema"), doc = "```text")]
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{RefusalKind, Router, StackExt, layer::ValidateLayer, tool::sync_tool_fn};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Page { #[schemars(range(min = 1))] number: u32 }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let stack = ServiceBuilder::new()
//!     .layer(ValidateLayer::json_schema())
//!     .service(Router::new().tool(sync_tool_fn("page", |page: Page| format!("page {}", page.number))));
//!
//! assert!(stack.call_tool("page", json!({ "number": 1 })).await.is_completed());
//! let answer = stack.call_tool("page", json!({ "number": 0 })).await;
//! assert_eq!(answer.refusal().unwrap().kind(), RefusalKind::InvalidArguments);
//! assert_eq!(answer.as_text().unwrap(), "Invalid arguments for page: /number: must be at least 1 (minimum).");
//! # }
//! ```
//!
//! # Order
//!
//! Inside whatever changes arguments, so that what is checked is what the tool gets; outside whatever asks a person, who should not be
//! asked about a call that cannot run. Where something further in changes arguments all the same, put a second one there: as a layer
//! of the router, or of the [tool](crate::Tool::layer). [`lint`](crate::StackExt::lint) finds a layer that changes calls inside this one.
//! With a [`Repair`], this is itself a layer that changes arguments, and belongs outside everything that judges them.
//!
//! # Refusals
//!
//! | kind | when |
//! |---|---|
//! | [`InvalidArguments`](crate::RefusalKind::InvalidArguments) | the message names path, rule and what was expected of at most [so many](ValidateLayer::max_faults) faults, and never the value |
//! | [`InvalidOutput`](crate::RefusalKind::InvalidOutput) | the tool ran, and its structured content is missing or not valid; the content is dropped. [`mark_results`](ValidateLayer::mark_results) gives it all the same |
//! | [`Internal`](crate::RefusalKind::Internal) | the schema cannot be compiled; [`check`](ValidateLayer::check) finds this beforehand |
//!
//! Refusals, errors, results that ask for input and tasks are not checked. A tool that only a [fallback](crate::Router::fallback)
//! answers has no schema here, and is not checked either.
//!
//! # Cancellation
//!
//! Holds nothing.

mod fields;
mod policy;
mod repair;
#[cfg(feature = "jsonschema")]
mod schema;
mod validator;

#[cfg(feature = "jsonschema")]
#[cfg_attr(docsrs, doc(cfg(feature = "jsonschema")))]
pub use self::schema::JsonSchema;
pub use self::{
    fields::{RequireFields, RequireFieldsLayer, RequiredFields},
    policy::{Checked, INVALID_OUTPUT, Schemas, Validate, ValidateLayer},
    repair::{REPAIRED, Repair},
    validator::{Check, Validator, Violation},
};
use crate::{
    error::{Refusal, RefusalKind},
    model::{ArgumentsError, ToolCall},
};

const NAME: &str = "validate";

/// The refusal for arguments that cannot be read. The error's own text may quote them.
fn unreadable(call: &ToolCall, error: &ArgumentsError) -> Refusal {
    let what = match error {
        ArgumentsError::NotAnObject { found } => format!("they must be a JSON object, not {found}."),
        ArgumentsError::Json(_) => "they are not JSON that can be read exactly: each key once in an object, integers within 64 bits, \
                                    at most 128 levels."
            .to_owned(),
    };
    Refusal::new(RefusalKind::InvalidArguments, format!("Invalid arguments for {}: {what}", call.name()))
        .with_source(error.clone())
        .with_by(NAME)
}

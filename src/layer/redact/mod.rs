//! Hides secrets and personal data in results, in every place where a result can carry text.
//!
//! What a tool read out of a file or got from a service is about to be shown to a model, and by the model to others. There are three
//! directions, and they are kept apart, because what is hidden from the one may be needed by the other:
//!
//! | direction | how |
//! |---|---|
//! | to the model | this layer, with a [`Redactor`] |
//! | to the tool | this layer too, but only where [`to_tool`](RedactLayer::to_tool) says so: a tool cannot use a password that it does not get |
//! | to observers | the same [`Redactor`], in the hands of whoever writes records: [`text`](Redactor::text), [`arguments`](Redactor::arguments), [`error`](Redactor::error) |
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Router, StackExt,
//!     layer::{RedactLayer, redact::{Detector, Redactor}},
//!     model::Arguments, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let redactor = Redactor::new().detector(Detector::literal("vault", "hunter2")).common_keys();
//! let stack = ServiceBuilder::new()
//!     .layer(RedactLayer::new(redactor))
//!     .service(Router::new().tool(sync_tool_fn("echo", |arguments: Arguments| arguments.as_json().unwrap().to_owned())));
//!
//! let answer = stack.call_tool("echo", json!({ "note": "hunter2 opens it", "token": 7 })).await;
//! assert_eq!(answer.as_text().unwrap(), r#"{"note":"[redacted:vault] opens it","token":"[redacted:key]"}"#);
//! let answer = stack.call_tool("echo", json!({ "note": "nothing here" })).await;
//! assert_eq!(answer.as_text().unwrap(), r#"{"note":"nothing here"}"#);
//! # }
//! ```
//!
//! # What is looked at
//!
//! Text blocks; structured content, its strings, the keys of its objects at any depth, and its numbers where the redactor
//! [asks for them](Redactor::numbers); the URIs, names, titles and descriptions of resources and links, URIs also with their escapes
//! resolved; the text of embedded resources; base64 that holds text; the messages of errors and refusals; reports of progress; `_meta`, annotations, and fields
//! that this crate does not know, of results, blocks and resources. A text that is JSON as a whole is treated as JSON, so that the text
//! beside structured content says the same as it.
//!
//! Not looked at: base64 that holds no text ([`hide_binary`](RedactLayer::hide_binary) hides it whole), what lies in archives or images,
//! secrets that are split over several places, what a person is asked by
//! [`InputRequired`](crate::model::InputRequired) and its sealed state, the challenge of a refusal, and lists of tools. A detector knows forms, not
//! meanings: it is the last line and not the only one.
//!
//! What is not hidden stays byte for byte; the error flag and the kind of a refusal stay; JSON stays JSON.
//!
//! # Order
//!
//! Outermost of all that changes results, so that nothing is added after it; inside what records, which has a redactor of its own. With
//! [`to_tool`](RedactLayer::to_tool), outside whatever judges calls.
//!
//! # Refusals
//!
//! None of its own.
//!
//! # Cancellation
//!
//! Holds nothing.

mod detector;
mod json;
mod policy;
#[cfg(feature = "redact")]
mod ready;
mod redactor;
mod result;

#[cfg(feature = "redact")]
#[cfg_attr(docsrs, doc(cfg(feature = "redact")))]
pub use self::detector::DetectorError;
pub use self::{
    detector::Detector,
    policy::{Promised, Redact, RedactLayer, Redaction},
    redactor::Redactor,
};
use self::{redactor::Mode, result::Hiding};

/// What stands in the place of hidden JSON that is no text: of numbers, booleans, lists and objects. A text always gives way to a marker,
/// except with [`Null`](Self::Null) under a key whose values are hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Typed {
    /// The marker, a text.
    #[default]
    Marker,
    /// `null`.
    Null,
    /// A value of the same type that says nothing: `0`, `false`, `[]`, `{}`.
    Same,
}

/// The key in the `_meta` of a result that says what was removed whole.
pub const REDACTED: &str = "toolstack/redacted";

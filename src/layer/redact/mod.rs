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
//! [asks for them](Redactor::numbers); the URIs, names, titles and descriptions of resources and links; the text of embedded resources;
//! base64 that holds text, also under a type that says it is an image or a sound; the messages of errors and refusals; reports of progress;
//! remarks; `_meta`, annotations, and fields that this crate does not know, of results, blocks and resources.
//!
//! Not looked at: base64 that holds no text ([`hide_binary`](RedactLayer::hide_binary) hides it whole, and it is hidden if a secret stands in
//! it as plain text), what lies in archives or images, secrets that are split over several places, what a person is asked by
//! [`InputRequired`](crate::model::InputRequired) and its sealed state, the challenge of a refusal, and lists of tools. A detector knows
//! forms, not meanings: it is the last line and not the only one.
//!
//! What is not hidden stays byte for byte; the error flag and the kind of a refusal stay; JSON stays JSON.
//!
//! # Forms
//!
//! A text is read in each of these forms, and in those that are within one another, and what is found in any is hidden:
//!
//! | form | |
//! |---|---|
//! | JSON | the whole text, objects and lists in the midst of another text, lines of JSON, and JSON in its strings. A text that is eight texts deep and JSON is hidden whole, as `[redacted:deep]` |
//! | values under [keys](Redactor::keys) | in JSON; in plain text after `=`, `:`, `=>`, `->`, after a flag as in `--password x`, in `<password>…</password>`, in queries, headers, YAML blocks. In quotes, a value ends where they do. Without, it is the rest of the line where its key begins the line, and one word elsewhere; of headers it is the rest of the line in any case |
//! | pairs | the `value`, `val`, `default`, `content`, `data` or `text` of an object whose `name`, `key`, `field`, `header` or the like is such a key, as in `[{"name": "password", "value": "…"}]`, and the second of two in a list of lists, as in `[["password", "…"]]` |
//! | escapes | of JSON and programming languages, of URIs (`%70`), of HTML (`&#112;`), four layers of them. A word that is spelled by numbers in more layers is hidden |
//! | base64 | runs of eight signs and more, of either alphabet, with or without padding, in lines or not, also in `data:` URIs. It gives way to `[redacted:encoded]` |
//!
//! Where two readings of a text differ, what either finds is hidden: a value may take more with it than it had to. What tells of a secret in
//! words (“the password is …”), and columns of tables, are not understood.
//!
//! # Order
//!
//! Outermost of all that changes results, so that nothing is added after it; inside what records, which has a redactor of its own. With
//! [`to_tool`](RedactLayer::to_tool), outside whatever judges calls.
//!
//! # Readiness
//!
//! Forwarded.
//!
//! # Refusals
//!
//! None of its own, but for arguments that [`to_tool`](RedactLayer::to_tool) cannot read: they go no further.
//!
//! # Cost
//!
//! Linear in the text, with a factor that grows with the number of detectors. A text takes no more than a set number of looks at each of its
//! bytes, in whatever forms it can be read; one that would take more, or that is [too large](Redactor::max_bytes), is hidden whole.
//!
//! # Cancellation
//!
//! Holds nothing.

mod assign;
mod detector;
mod encoded;
mod json;
mod keys;
mod marks;
mod policy;
#[cfg(feature = "redact")]
mod ready;
mod redactor;
mod result;
mod text;
#[cfg(feature = "redact")]
mod uri;
mod view;

#[cfg(feature = "redact")]
#[cfg_attr(docsrs, doc(cfg(feature = "redact")))]
pub use self::detector::DetectorError;
use self::result::Hiding;
pub use self::{
    detector::Detector,
    policy::{Promised, Redact, RedactLayer, Redaction},
    redactor::Redactor,
};

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

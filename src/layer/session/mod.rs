//! Resolves the sessions that a call names, and holds them until the call is over.
//!
//! A handle among the arguments, such as a `session_id`, is a name and not yet a right: somebody has to look whether there is such a
//! session, whether it is this caller's, and whether it is still open, and it has to stay so while the tool works. This layer does the
//! three in one step and hands the sessions inward as [`HeldSessions`]. [`PinLayer`] is for handles that the model may not choose.
//!
//! # Example
//!
//! ```
//! use serde::Deserialize;
//! use serde_json::json;
//! use schemars::JsonSchema;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt, layer::{SessionLayer, session::HeldSessions},
//!     store::{MemorySessions, SessionOwner, SessionLimits}, tool::sync_tool_fn,
//! };
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Look { session_id: String }
//!
//! fn look(args: Look, sessions: HeldSessions) -> String {
//!     let session = sessions.get("session_id").unwrap();
//!     format!("{} holds {}", args.session_id, session.value::<u8>().unwrap())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let sessions = MemorySessions::new(SessionLimits::new(100));
//! sessions.open_as("s1", SessionOwner::Anyone, 7_u8).unwrap();
//! let stack = ServiceBuilder::new()
//!     .layer(SessionLayer::new(sessions.clone()).required("session_id").require_open())
//!     .service(Router::new().tool(sync_tool_fn("look", look)));
//!
//! let look = async |id: &str| stack.call_tool("look", json!({ "session_id": id })).await;
//! assert_eq!(look("s1").await.as_text().unwrap(), "s1 holds 7");
//! assert_eq!(look("s2").await.as_text().unwrap(), "Session 's2' not found.");
//!
//! sessions.close("s1").await;
//! assert_eq!(look("s1").await.refusal().unwrap().kind(), RefusalKind::SessionClosed);
//! # }
//! ```
//!
//! # Order
//!
//! Inside what finds out who asks, and inside [`PinLayer`] and whatever else sets the handle; outside permission, so that nobody is
//! asked about a session that is not there, and inside whatever else changes arguments. An approver's edit of a handle is refused by
//! the [permission layer](super::permission). That a session is open can only be required here, where it is looked up.
//!
//! # Refusals
//!
//! | kind | message |
//! |---|---|
//! | [`InvalidArguments`](crate::RefusalKind::InvalidArguments) | `Missing required parameter: 'session_id'.`, with a [`MissingParameter`](crate::error::MissingParameter) as its source; also for a handle that is no string, and for arguments that cannot be read |
//! | [`SessionNotFound`](crate::RefusalKind::SessionNotFound) | `Session 's2' not found.`, also for one of another principal |
//! | [`SessionClosed`](crate::RefusalKind::SessionClosed) | says that it is closed and cannot be modified, and to open or branch another |
//! | [`Internal`](crate::RefusalKind::Internal) | if the store fails; the tool does not run |
//!
//! [`error_payload`](crate::error::error_payload) writes them as `{"error": code, "message": text}`.
//!
//! # Cancellation
//!
//! A session is let go when the call is over or dropped, and everybody who took a [`HeldSessions`] or a clone of the call's context has
//! dropped it: a thread that outlives its call keeps what it works on.

mod cut;
mod handle;
mod held;
mod pin;
mod policy;

pub use self::{
    held::HeldSessions,
    pin::{Pin, PinLayer, Pinned},
    policy::{Session, SessionLayer, SessionPolicy},
};

const NAME: &str = "session";

//! Asks for a stronger or a more recent sign-in, by tool and by argument (RFC 9470).
//!
//! To look up a balance and to send the money away should not take the same sign-in. What is asked for here is the authentication context
//! class of the sign-in (`acr`), such as one with a second factor, and how long ago it was (`auth_time`); which calls need it may hang on
//! their arguments. A caller whose sign-in does not do is told what would.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt, ToolCall,
//!     layer::{StepUpLayer, permission::ArgumentRule, step_up::StepUpRule},
//!     model::{Context, Principal},
//!     select::ToolSelector,
//!     tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rule = StepUpRule::new(ToolSelector::new().name("transfer")?)
//!     .argument(ArgumentRule::at_least("/amount", 1000)?)
//!     .acr(["mfa"])
//!     .max_age(Duration::from_secs(300));
//! let stack = ServiceBuilder::new()
//!     .layer(StepUpLayer::new([rule]))
//!     .service(Router::new().tool(sync_tool_fn("transfer", || "sent")));
//!
//! let mut ada = Principal::new("ada");
//! ada.acr = Some("pwd".to_owned());
//! ada.auth_time = Some(SystemTime::now());
//! let transfer = |who: &Principal, amount: u32| {
//!     stack.run_call(ToolCall::new("transfer", json!({ "amount": amount })).with_context(Context::new().with_principal(who.clone())))
//! };
//! assert!(transfer(&ada, 10).await.is_completed());
//! let refused = transfer(&ada, 5000).await;
//! assert_eq!(refused.refusal().unwrap().kind(), RefusalKind::StepUp);
//! assert_eq!(
//!     refused.refusal().unwrap().bearer_challenge().unwrap().to_string(),
//!     r#"Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300""#,
//! );
//! ada.acr = Some("mfa".to_owned());
//! assert!(transfer(&ada, 5000).await.is_completed());
//! # Ok(()) }
//! ```
//!
//! # Order
//!
//! Inside what finds out [who asks](super::authenticate) and whatever changes or checks arguments, so that what is judged is what runs and
//! nobody signs in again for a call that cannot run; outside [permission](super::permission), so that no person is asked about a call
//! that its caller may not make yet.
//!
//! # Readiness
//!
//! Ready at once; the first request asks what is within for its tools.
//!
//! # Refusals
//!
//! [`StepUp`](crate::RefusalKind::StepUp), with one challenge for all rules about the call. What is not known does not do: a call that
//! nobody vouches for, a principal without `acr` or `auth_time` where a rule asks for it, and a sign-in that lies in the future are
//! refused. [`let_anonymous_pass`](StepUpLayer::let_anonymous_pass) lets the first of these pass. An argument rule that cannot be told,
//! such as one about an argument of the wrong kind, makes its rule count.
//!
//! # Cancellation
//!
//! Holds nothing.

mod layer;
mod rule;

pub use self::{
    layer::{StepUp, StepUpLayer, StepUpService},
    rule::StepUpRule,
};

const NAME: &str = "step_up";

//! An approver of one's own: two people have to agree.
//!
//! Run with `cargo run --example custom_approver`.

use futures_util::future::{BoxFuture, join};
use serde_json::json;
use toolstack::{
    Router, StackExt,
    layer::permission::{Approval, ApprovalRequest, Approver, ApproverError, Decision, Effect, PermissionLayer, Rules},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

/// Asks two, at once, and takes the first no. A yes is for this call only: it is not remembered.
struct Both<A, B>(A, B);

impl<A: Approver, B: Approver> Approver for Both<A, B> {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Approval, ApproverError>> {
        Box::pin(async move {
            let (one, two) = join(self.0.ask(request.clone()), self.1.ask(request)).await;
            // Whoever could not be asked has not said yes; and has not said no either, so the error goes on as it is.
            for approval in [one?, two?] {
                match approval.decision {
                    Decision::AllowOnce | Decision::Allow(_) => {}
                    Decision::Deny | Decision::DenyAll(_) => return Ok(approval),
                    // Other arguments, say, which the other one has not seen.
                    _ => return Err(ApproverError::Dismissed),
                }
            }
            Ok(Approval::once())
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ada = async |_: ApprovalRequest| Ok(Approval::once());
    let bob = async |request: ApprovalRequest| {
        let staging = request.call.arguments.object().is_ok_and(|arguments| arguments.get("to") == Some(&json!("staging")));
        Ok(if staging { Approval::once() } else { Approval::deny().because("not on a Friday") })
    };
    let stack = ServiceBuilder::new()
        .layer(PermissionLayer::new(Rules::empty(), Effect::Ask).ask(Both(ada, bob)))
        .service(Router::new().tool(sync_tool_fn("deploy", || "deployed")));

    let staging = stack.call_tool("deploy", json!({ "to": "staging" })).await;
    println!("{}", staging.as_text().unwrap_or_default());
    assert!(staging.is_completed());
    let production = stack.call_tool("deploy", json!({ "to": "production" })).await;
    println!("{}", production.as_text().unwrap_or_default());
    assert_eq!(production.as_text().as_deref(), Some("User denied execution of 'deploy'. Reason: not on a Friday"));
}

use std::fmt;

use futures_util::{future::BoxFuture, stream};
use tokio::sync::{mpsc, oneshot};

use super::{Approval, ApprovalRequest, Approver, ApproverError};

/// An [`Approver`] that puts each question on a channel; see [`channel`].
#[derive(Clone)]
pub struct ChannelApprover {
    questions: mpsc::Sender<Question>,
}

/// The other end of a [`ChannelApprover`].
pub struct Questions {
    questions: mpsc::Receiver<Question>,
}

/// A question that waits for an answer. Dropping it is not a no: the call is refused as one that nobody decided.
#[must_use = "a question that is dropped is not answered"]
pub struct Question {
    request: ApprovalRequest,
    answer: oneshot::Sender<Approval>,
}

/// An approver that asks through a channel: for a user interface that lives in another task.
///
/// At most `waiting` questions are in the channel; the calls of further ones wait for a place. Once the [`Questions`] are dropped, nobody
/// is there to be asked.
///
/// ```
/// use serde_json::json;
/// use tower::ServiceBuilder;
/// use toolstack::{
///     Router, ServiceBuilderExt, StackExt,
///     layer::permission::{Approval, Effect, PermissionLayer, Rules, channel},
///     tool::sync_tool_fn,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (approver, mut questions) = channel(8);
/// tokio::spawn(async move {
///     while let Some(question) = questions.next().await {
///         let safe = question.request().call.name() == "ping";
///         question.answer(if safe { Approval::once() } else { Approval::deny() });
///     }
/// });
/// let stack = ServiceBuilder::new()
///     .layer(PermissionLayer::new(Rules::empty(), Effect::Ask).ask(approver))
///     .service(Router::new().tool(sync_tool_fn("ping", || "pong")));
/// assert!(stack.call_tool("ping", json!({})).await.is_completed());
/// # }
/// ```
#[must_use]
pub fn channel(waiting: usize) -> (ChannelApprover, Questions) {
    let (sender, questions) = mpsc::channel(waiting.clamp(1, 1 << 16));
    (ChannelApprover { questions: sender }, Questions { questions })
}

impl Approver for ChannelApprover {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Approval, ApproverError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.questions.send(Question { request, answer }).await.map_err(|_| ApproverError::Absent)?;
            answered.await.map_err(|_| ApproverError::Dismissed)
        })
    }
}

impl Questions {
    /// The next question; `None` once no approver is left. Dropping the wait loses none.
    pub async fn next(&mut self) -> Option<Question> {
        self.questions.recv().await
    }

    /// The questions as a stream.
    pub fn into_stream(mut self) -> impl stream::Stream<Item = Question> + Send + Unpin {
        stream::poll_fn(move |cx| self.questions.poll_recv(cx))
    }
}

impl Question {
    /// What is asked.
    #[must_use]
    pub const fn request(&self) -> &ApprovalRequest {
        &self.request
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.answer.is_closed()
    }

    /// Answers. Nothing happens if nobody waits any more.
    pub fn answer(self, approval: Approval) {
        let _ = self.answer.send(approval);
    }
}

impl fmt::Debug for ChannelApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelApprover").finish_non_exhaustive()
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("request", &self.request).finish_non_exhaustive()
    }
}

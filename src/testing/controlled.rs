use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{
    error::Refusal,
    model::{ToolCall, ToolName, ToolResponse, ToolSpec},
    tool::{Handler, Tool, ToolFuture},
};

/// A tool whose calls wait until the test ends them. Clones are one tool.
///
/// ```
/// use serde_json::json;
/// use toolstack::{Router, StackExt, ToolResponse, testing::Controlled};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let controlled = Controlled::new();
/// let stack = Router::new().tool(controlled.tool("wait"));
///
/// let (answer, ()) = tokio::join!(stack.call_tool("wait", json!({})), async {
///     let held = controlled.next().await;
///     assert_eq!(controlled.in_flight(), 1);
///     held.respond(ToolResponse::text("now"));
/// });
/// assert_eq!(answer.as_text().as_deref(), Some("now"));
/// assert_eq!(controlled.in_flight(), 0);
/// # }
/// ```
#[derive(Clone)]
pub struct Controlled {
    shared: Arc<Shared>,
}

struct Shared {
    send: mpsc::UnboundedSender<Held>,
    receive: Mutex<mpsc::UnboundedReceiver<Held>>,
    in_flight: AtomicUsize,
    dropped: AtomicUsize,
    peak: AtomicUsize,
}

/// A call that waits.
#[derive(Debug)]
#[must_use = "dropping it ends the call with a refusal"]
pub struct Held {
    call: ToolCall,
    answer: oneshot::Sender<ToolResponse>,
}

impl Held {
    /// The call.
    #[must_use]
    pub const fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Ends the call. Nothing happens if its caller has gone.
    pub fn respond(self, response: ToolResponse) {
        let _ = self.answer.send(response);
    }
}

impl Controlled {
    /// A tool whose calls wait.
    #[must_use]
    pub fn new() -> Self {
        let (send, receive) = mpsc::unbounded_channel();
        let shared = Shared {
            send,
            receive: Mutex::new(receive),
            in_flight: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The tool under this name.
    ///
    /// # Panics
    ///
    /// If the name breaks the rule for names.
    #[track_caller]
    pub fn tool(&self, name: &str) -> Tool<Self> {
        match ToolName::new(name) {
            Ok(name) => Tool::new(ToolSpec::new(name), self.clone()),
            // Not in a closure, which would panic at its own place.
            Err(error) => panic!("`{name}` cannot name a tool: {error}"),
        }
    }

    /// Waits for the next call that arrives, in the order of arrival.
    pub async fn next(&self) -> Held {
        match self.shared.receive.lock().await.recv().await {
            Some(held) => held,
            // The sender lives as long as `self`.
            None => std::future::pending().await,
        }
    }

    /// How many calls wait at this moment.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    /// How many calls waited at once, at the most.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.shared.peak.load(Ordering::SeqCst)
    }

    /// How many calls were dropped before they ended.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.shared.dropped.load(Ordering::SeqCst)
    }
}

impl Default for Controlled {
    fn default() -> Self {
        Self::new()
    }
}

struct InFlight {
    shared: Arc<Shared>,
    ended: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shared.in_flight.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            self.shared.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Handler for Controlled {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let shared = Arc::clone(&self.shared);
        ToolFuture::new(async move {
            let now = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            shared.peak.fetch_max(now, Ordering::SeqCst);
            let mut in_flight = InFlight { shared, ended: false };
            let (answer, answered) = oneshot::channel();
            let _ = in_flight.shared.send.send(Held { call, answer });
            let response = answered.await;
            in_flight.ended = true;
            response.unwrap_or_else(|gone| ToolResponse::refused(Refusal::internal(gone)))
        })
    }
}

impl fmt::Debug for Controlled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controlled").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

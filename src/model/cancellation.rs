use tokio_util::sync::CancellationToken;

/// Tells work that cannot be dropped that nobody waits for it any more.
///
/// Dropping a call's future is its cancellation, and an async tool needs nothing else. A tool that runs on a thread of its own, or that
/// started something elsewhere, looks here. A call inside a call is cancelled with it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use toolstack::model::Cancellation;
///
/// let outer = Cancellation::new();
/// let inner = outer.child();
/// outer.cancel();
/// inner.cancelled().await;
/// assert!(inner.is_cancelled());
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(CancellationToken);

impl Cancellation {
    /// A cancellation that has not happened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A cancellation that happens with this one, or before it.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Cancels. Doing so again does nothing.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it has happened.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it happens. Dropping the wait is harmless.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Cancels when the guard is dropped.
    pub(crate) fn on_drop(&self) -> impl Send + Sync + use<> {
        self.0.clone().drop_guard()
    }
}

//! Seeing a stack: what it is made of, outermost first.
//!
//! [`Describe`] is one more operation. On its way in, every layer of this crate leaves a [`Note`]; the router answers with its tools.
//! Layers of other crates let it through, since they are generic over the request: that they are there is read from the types of the
//! services between two notes, their settings are known if [`named`](crate::layer::named()) labels them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::time::Duration;
//! use tower::ServiceBuilder;
//! use toolstack::{Router, StackExt, layer::VisibilityLayer};
//!
//! let stack = ServiceBuilder::new()
//!     .layer(VisibilityLayer::new(|_, _| true))
//!     .timeout(Duration::from_secs(30))
//!     .concurrency_limit(32)
//!     .service(Router::new());
//!
//! let description = stack.describe().await;
//! let names: Vec<_> = description.layers().iter().map(|note| note.name()).collect();
//! assert_eq!(names, ["visibility", "timeout", "concurrency_limit"]);
//! # }
//! ```

mod description;
mod foreign;
pub(crate) mod lint;
mod mermaid;
mod note;

pub(crate) use self::foreign::between as layers_between;
pub use self::{
    description::{Description, ToolNote},
    lint::{Fault, Severity},
    note::{Duty, Note},
};
use crate::model::Context;

/// Asks what a stack is made of.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Describe {
    /// What every operation carries.
    pub context: Context,
    notes: Vec<Note>,
}

impl Describe {
    /// Asks with an empty context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a layer, within those noted before. A hand-written layer does this when it sees
    /// [`View::Describe`](crate::operation::View::Describe), with the types of itself and of the service within.
    pub fn note<This: ?Sized, Inner: ?Sized>(&mut self, note: Note) {
        self.notes.push(note.between(std::any::type_name::<This>(), std::any::type_name::<Inner>()));
    }

    /// Notes where the layers end.
    pub(crate) fn terminal<This: ?Sized>(&mut self) {
        self.note::<This, This>(Note::new(""));
    }

    pub(crate) fn push(&mut self, note: Note) {
        self.notes.push(note);
    }

    pub(crate) fn into_notes(self) -> Vec<Note> {
        self.notes
    }
}

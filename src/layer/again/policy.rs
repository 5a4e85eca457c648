use futures_util::future::BoxFuture;

use crate::{
    describe::Note,
    operation::{Reply, View},
};

/// What a layer thinks of answers, and when it has a request made again. See the [module](super).
#[diagnostic::on_unimplemented(message = "`{Self}` does not say when a request is made again", note = "implement `Repeat`")]
pub trait Repeat: Send + Sync + 'static {
    /// What the layer says of itself; `None` for a layer that is a part of another.
    fn note(&self) -> Option<Note>;

    /// How often a request is made at most, the first time included.
    fn attempts(&self) -> u32 {
        2
    }

    /// Whether this request may be made again. What may not is not kept, and costs nothing.
    fn keeps(&self, request: View<'_>) -> bool;

    /// Looks at an answer, and may change it. `may_repeat` says whether the request could be made again; where it could not, both
    /// judgements let the answer stand.
    fn judge(&self, reply: Reply<'_>, may_repeat: bool) -> Judgement;

    /// Takes its time over a request and its answer, either of which it may change, and says whether the request is made again; else the
    /// answer stands. The future may be dropped at any of its awaits.
    fn decide<'a>(&'a self, request: View<'a>, reply: Reply<'a>) -> BoxFuture<'a, bool>;

    /// Hears of the answer that stands after a request was made again, with the request as it was made last.
    fn over(&self, request: View<'_>, reply: Reply<'_>) {
        let _ = (request, reply);
    }
}

/// What happens to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Judgement {
    /// It stands.
    Stands,
    /// [`Repeat::decide`] says.
    Decide,
}

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tower::util::Oneshot;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Current, Entered,
    entered::{Gate, Passages},
};
use crate::{
    describe::Note,
    operation::{Operation, View},
};

/// What the clones of one service share: the layer that is there, and the service that it made.
pub(super) struct Slot<S, L: Layer<Entered<S>>> {
    current: Arc<Current<L>>,
    again: bool,
    /// Names it among the swapped layers that a request goes through.
    id: u64,
    built: Mutex<Built<S, L::Service>>,
}

struct Built<S, V> {
    inner: S,
    serial: u64,
    service: V,
}

impl<S: Clone, L: Layer<Entered<S>>> Slot<S, L> {
    pub(super) fn new(current: Arc<Current<L>>, inner: S, again: bool) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let generation = current.layer.load_full();
        let entered = Entered::new(inner.clone(), again.then(|| gate(&current, generation.serial, id)));
        let built = Built { inner, serial: generation.serial, service: generation.layer.layer(entered) };
        Self { current, again, id, built: Mutex::new(built) }
    }

    /// The service that the current layer makes, built if nobody did so yet: one for all clones, so that they share what is in it.
    fn service(&self) -> (u64, L::Service)
    where
        L::Service: Clone,
    {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.current.layer.load_full();
        if built.serial != generation.serial {
            let gate = self.again.then(|| gate(&self.current, generation.serial, self.id));
            built.service = generation.layer.layer(Entered::new(built.inner.clone(), gate));
            built.serial = generation.serial;
        }
        (built.serial, built.service.clone())
    }

    fn serial(&self) -> u64 {
        self.current.serial.load(Ordering::Acquire)
    }
}

fn gate<L>(current: &Current<L>, serial: u64, slot: u64) -> Gate {
    Gate { serial, current: Arc::clone(&current.serial), slot }
}

/// A service whose layer can be swapped.
pub struct Reload<S, L: Layer<Entered<S>>> {
    slot: Arc<Slot<S, L>>,
    serial: u64,
    service: L::Service,
}

impl<S, L> Reload<S, L>
where
    S: Clone,
    L: Layer<Entered<S>>,
    L::Service: Clone,
{
    pub(super) fn new(slot: Arc<Slot<S, L>>) -> Self {
        let (serial, service) = slot.service();
        Self { slot, serial, service }
    }

    /// Takes up the service of the current layer; says whether it is another.
    fn renew(&mut self) -> bool {
        let stale = self.slot.serial() != self.serial;
        if stale {
            (self.serial, self.service) = self.slot.service();
        }
        stale
    }
}

impl<S, L> Clone for Reload<S, L>
where
    L: Layer<Entered<S>>,
    L::Service: Clone,
{
    fn clone(&self) -> Self {
        Self { slot: Arc::clone(&self.slot), serial: self.serial, service: self.service.clone() }
    }
}

impl<S, L: Layer<Entered<S>>> fmt::Debug for Reload<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").field("again", &self.slot.again).finish_non_exhaustive()
    }
}

impl<S, L, Op> Service<Op> for Reload<S, L>
where
    Op: Operation,
    S: Clone,
    L: Layer<Entered<S>>,
    L::Service: Service<Op, Response = Op::Response> + Clone,
{
    type Response = Op::Response;
    type Error = <L::Service as Service<Op>>::Error;
    type Future = ResponseFuture<S, L, Op>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.renew();
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Op) -> Self::Future {
        if let View::Describe(describe) = request.view() {
            // Not a layer of its own: it only says where the types go on.
            describe.note::<Self, L::Service>(Note::new(""));
        }
        let again = self.slot.again.then(|| {
            let again = Again { slot: Arc::clone(&self.slot), request: request.clone(), stopped: Arc::default() };
            Passages::open(&mut request, again.slot.id, &again.stopped);
            again
        });
        // What was polled ready was the old layer's service: it goes, with its permit, and the new one is driven to ready.
        let state = if self.renew() {
            State::Waiting { oneshot: Oneshot::new(self.service.clone(), request) }
        } else {
            State::Called { future: self.service.call(request) }
        };
        ResponseFuture { state, again }
    }
}

/// A request that may have to start again.
struct Again<S, L: Layer<Entered<S>>, Op> {
    slot: Arc<Slot<S, L>>,
    /// As it came.
    request: Op,
    stopped: Arc<AtomicBool>,
}

pin_project! {
    /// The response of [`Reload`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, L, Op>
    where
        L: Layer<Entered<S>>,
        L::Service: Service<Op>,
    {
        #[pin]
        state: State<L::Service, Op>,
        again: Option<Again<S, L, Op>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<V: Service<Op>, Op> {
        Called { #[pin] future: V::Future },
        Waiting { #[pin] oneshot: Oneshot<V, Op> },
    }
}

impl<S, L, Op> Future for ResponseFuture<S, L, Op>
where
    Op: Operation,
    S: Clone,
    L: Layer<Entered<S>>,
    L::Service: Service<Op, Response = Op::Response> + Clone,
{
    type Output = Result<Op::Response, <L::Service as Service<Op>>::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let result = std::task::ready!(match this.state.as_mut().project() {
                StateProj::Called { future } => future.poll(cx),
                StateProj::Waiting { oneshot } => oneshot.poll(cx),
            });
            match this.again {
                Some(again) if again.stopped.swap(false, Ordering::AcqRel) => {
                    let (_, service) = again.slot.service();
                    let mut request = again.request.clone();
                    Passages::open(&mut request, again.slot.id, &again.stopped);
                    this.state.set(State::Waiting { oneshot: Oneshot::new(service, request) });
                }
                _ => return Poll::Ready(result),
            }
        }
    }
}

impl<S, L, Op> fmt::Debug for ResponseFuture<S, L, Op>
where
    L: Layer<Entered<S>>,
    L::Service: Service<Op>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

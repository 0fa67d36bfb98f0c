//! The task of a reflector: carries out the orders of the protocol, and reports what came of them.
//!
//! It decides nothing. One turn is: take one fact (a part of an answer, the passing of a deadline, the wish to stop), give
//! it to the [`Core`], show the new status. Requests are made by storing their futures, which the next turns poll, so
//! that dropping one is all it takes to cancel it.
//!
//! [`Core`] is what of this needs no runtime. It is public for simulators, and for other runtimes.

mod core;

use std::{
    fmt,
    future::{pending, poll_fn},
    sync::Arc,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

pub use self::core::{Core, Fact, Requests};
use crate::{
    Store,
    prepare::Preparation,
    protocol::{CheckResult, ErrorReport, Failure, Phase, Status, Time},
    source::{ListOptions, ListPart, ListStream, ListWatch, WatchOptions, WatchStream},
};

/// What the error handler wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on as the protocol says.
    Continue,
    /// End the reflector. What is in the store stays.
    Stop,
}

pub(crate) type ErrorHandler = Box<dyn FnMut(&ErrorReport) -> Control + Send>;
pub(crate) type ResyncPredicate = Box<dyn FnMut() -> bool + Send>;

/// A reflector that runs: everything that its task owns.
pub(crate) struct Driver<K, L, S: Store<K>> {
    core: Core<K, S>,
    requests: Live<K, L>,
    status: watch::Sender<Status>,
    /// The origin of the machine's time.
    started: Instant,
}

/// The requests that are open, and what makes them.
struct Live<K, L> {
    source: Arc<L>,
    preparation: Arc<Preparation<K>>,
    main: Main<K>,
    second: Second<K>,
}

/// The request that matters.
#[derive(Default)]
enum Main<K> {
    #[default]
    None,
    Listing(BoxFuture<'static, Result<ListStream<K>, Failure>>),
    List(ListStream<K>),
    Opening(BoxFuture<'static, Result<WatchStream<K>, Failure>>),
    Watch(WatchStream<K>),
}

/// The request beside it.
#[derive(Default)]
enum Second<K> {
    #[default]
    None,
    Check(BoxFuture<'static, CheckResult>),
    Reopen(BoxFuture<'static, Result<WatchStream<K>, Failure>>),
}

/// What came of the second request.
enum SecondFact<K> {
    Checked(CheckResult),
    Reopened(Result<WatchStream<K>, Failure>),
}

impl<K> Main<K> {
    /// The next fact. Cancel-safe: what is under way stays in `self`.
    async fn next(&mut self) -> Fact<K> {
        let (next, fact) = match self {
            Self::None => pending().await,
            Self::Listing(request) => match request.await {
                Ok(list) => (Self::List(list), Fact::ListOpened),
                Err(failure) => (Self::None, Fact::ListFailed(failure)),
            },
            Self::List(list) => match list.next().await {
                Some(Ok(ListPart::Items(items))) => return Fact::ListPart(ListPart::Items(items)),
                Some(Ok(end)) => (Self::None, Fact::ListPart(end)),
                Some(Err(failure)) => (Self::None, Fact::ListFailed(failure)),
                None => (Self::None, Fact::ListFailed(incomplete())),
            },
            Self::Opening(request) => match request.await {
                Ok(watch) => (Self::Watch(watch), Fact::WatchOpened),
                Err(failure) => (Self::None, Fact::WatchFailed(failure)),
            },
            Self::Watch(watch) => match watch.next().await {
                Some(Ok(events)) => return Fact::Events(events),
                Some(Err(failure)) => (Self::None, Fact::Broken(failure)),
                None => (Self::None, Fact::Ended),
            },
        };
        *self = next;
        fact
    }
}

impl<K> Second<K> {
    async fn next(&mut self) -> SecondFact<K> {
        match self {
            Self::None => pending().await,
            Self::Check(request) => SecondFact::Checked(request.await),
            Self::Reopen(request) => SecondFact::Reopened(request.await),
        }
    }
}

impl<K: Send + 'static, L: ListWatch<K>> Live<K, L> {
    fn open_list(
        &self,
        options: ListOptions,
        refresh: bool,
    ) -> BoxFuture<'static, Result<ListStream<K>, Failure>> {
        let (source, preparation) = (Arc::clone(&self.source), Arc::clone(&self.preparation));
        async move {
            if refresh {
                source.refresh().await;
            }
            // What comes is prepared before anything else sees it, and once (ST-4, Q-4).
            Ok(preparation.list(source.list(options).await?))
        }
        .boxed()
    }

    fn open_watch(
        &self,
        options: WatchOptions,
        refresh: bool,
    ) -> BoxFuture<'static, Result<WatchStream<K>, Failure>> {
        let (source, preparation) = (Arc::clone(&self.source), Arc::clone(&self.preparation));
        async move {
            if refresh {
                source.refresh().await;
            }
            let initial = options.send_initial_events == Some(true);
            Ok(preparation.watch(source.watch(options).await?, initial))
        }
        .boxed()
    }

    /// The second request has ended; a watch takes the place of the main one.
    fn take_second(&mut self, fact: SecondFact<K>) -> Fact<K> {
        self.second = Second::None;
        match fact {
            SecondFact::Checked(result) => Fact::Checked(result),
            SecondFact::Reopened(Ok(watch)) => {
                self.main = Main::Watch(watch);
                Fact::Reopened
            }
            SecondFact::Reopened(Err(failure)) => Fact::ReopenFailed(failure),
        }
    }
}

impl<K: Send + 'static, L: ListWatch<K>> Requests for Live<K, L> {
    fn list(&mut self, options: ListOptions, refresh: bool) {
        self.main = Main::Listing(self.open_list(options, refresh));
    }

    fn watch(&mut self, options: WatchOptions, refresh: bool) {
        self.main = Main::Opening(self.open_watch(options, refresh));
    }

    fn check(&mut self, options: ListOptions, refresh: bool) {
        self.second = Second::Check(check(self.open_list(options, refresh)));
    }

    fn reopen(&mut self, options: WatchOptions, refresh: bool) {
        self.second = Second::Reopen(self.open_watch(options, refresh));
    }

    fn close(&mut self) {
        self.main = Main::None;
    }

    fn close_second(&mut self) {
        self.second = Second::None;
    }
}

impl<K, L, S> Driver<K, L, S>
where
    K: Send + 'static,
    L: ListWatch<K>,
    S: Store<K>,
{
    /// `started` is the origin of the machine's time.
    pub(crate) fn new(
        core: Core<K, S>,
        source: L,
        preparation: Arc<Preparation<K>>,
        status: watch::Sender<Status>,
        started: Instant,
    ) -> Self {
        let requests = Live { source: Arc::new(source), preparation, main: Main::None, second: Second::None };
        Self { core, requests, status, started }
    }

    /// Runs until the protocol stops. `stop` ends it from outside.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.core.start(Time::ZERO, &mut self.requests);
        let mut runs = true;
        while runs {
            self.status.send_replace(self.core.status());
            let deadline = self.core.deadline();
            let Live { main, second, .. } = &mut self.requests;
            let fact = tokio::select! {
                // A handle that is gone cannot be asked any more, so nobody wants the copy.
                _ = stop.wait_for(|stop| *stop) => Fact::Stop,
                fact = next(&mut self.core, main) => fact,
                fact = second.next() => self.requests.take_second(fact),
                () = sleep_until_time(self.started, deadline) => Fact::TimePassed,
            };
            runs = self.core.handle(self.started.elapsed(), fact, &mut self.requests);
        }
        self.status.send_replace(self.core.status());
    }
}

impl<K, L, S: Store<K>> Drop for Driver<K, L, S> {
    /// However it ends, also by a panic of the store or of a handler: nobody is to wait for a reflector that is gone.
    fn drop(&mut self) {
        self.core.metrics().waits(false);
        self.status.send_if_modified(|status| {
            let running = status.phase != Phase::Stopped;
            status.phase = Phase::Stopped;
            running
        });
    }
}

impl<K, L, S: Store<K>> fmt::Debug for Driver<K, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// The next fact of the main request; the next changes once the store has room for them.
async fn next<K, S: Store<K>>(core: &mut Core<K, S>, main: &mut Main<K>) -> Fact<K> {
    if matches!(main, Main::Watch(_)) {
        poll_fn(|cx| core.poll_ready(cx)).await;
    } else {
        core.metrics().waits(false);
    }
    main.next().await
}

fn incomplete() -> Failure {
    Failure::malformed("the list ended before it was complete")
}

/// Lists one object for the version of the collection.
fn check<K: 'static>(
    list: BoxFuture<'static, Result<ListStream<K>, Failure>>,
) -> BoxFuture<'static, CheckResult> {
    async move {
        let mut list = list.await?;
        while let Some(part) = list.next().await {
            if let ListPart::End(end) = part? {
                return Ok(end.version);
            }
        }
        Err(incomplete())
    }
    .boxed()
}

/// Sleeps until a time of the machine; for ever if there is none, or if it is beyond what a clock can show.
async fn sleep_until_time(started: Instant, at: Option<Time>) {
    match at.and_then(|at| started.checked_add(at)) {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

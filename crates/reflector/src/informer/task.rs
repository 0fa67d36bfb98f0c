//! The task of one handler: takes events from its subscription and calls it, one after the other.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::{
    sync::watch,
    time::{Instant, Interval, interval_at},
};
use tracing::{error, warn};

use super::{
    handler::EventHandler,
    options::OnPanic,
    registration::{HandlerState, INSIDE, Member, Order, Payload},
};
use crate::{
    Event, Object, Subscription,
    store::{Ended, Lag},
};

/// A call that takes longer is slow.
const SLOW: Duration = Duration::from_millis(100);

/// A slow handler is worth a warning when more changes than this wait for it.
const MANY: usize = 1024;

/// How often a call that does not end is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Everything that the task of a handler owns. The fields are dropped in this order: whoever waits for the end learns
/// of it when the handler is gone.
pub(super) struct Task<K, H> {
    pub(super) handler: H,
    pub(super) subscription: Subscription<K>,
    pub(super) resync: Option<Interval>,
    pub(super) on_panic: OnPanic,
    pub(super) meters: Meters,
    pub(super) member: Member,
}

/// What comes next for a handler.
enum Next<K> {
    Event(Event<K>),
    Resync,
    Order(Order),
    End(HandlerState),
}

impl<K: 'static, H: EventHandler<K>> Task<K, H> {
    /// Runs until the handler ends. Gives how many events an order to stop kept from it.
    pub(super) async fn run(mut self) -> usize {
        let mut orders = self.member.registration.orders();
        loop {
            // The filters of a subscription are the caller's too.
            let next = AssertUnwindSafe(self.next(&mut orders)).catch_unwind().await;
            let end = match next {
                Ok(Next::Event(event)) => self.deliver(event).await,
                Ok(Next::Resync) => {
                    self.subscription.resync();
                    None
                }
                Ok(Next::Order(Order::Remove)) => Some(HandlerState::Removed),
                Ok(Next::Order(_)) => {
                    let Lag { waiting, present, .. } = self.subscription.lag();
                    return waiting + present;
                }
                Ok(Next::End(state)) => Some(state),
                Err(payload) => self.panicked(payload, None),
            };
            if let Some(end) = end {
                self.member.end = end;
                return 0;
            }
            // Handlers that never wait would keep other tasks from running.
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Cancel-safe: nothing is taken before it is returned.
    async fn next(&mut self, orders: &mut watch::Receiver<Order>) -> Next<K> {
        let order =
            async { orders.wait_for(|order| *order != Order::Run).await.map_or(Order::Stop, |order| *order) };
        tokio::select! {
            biased;
            order = order => Next::Order(order),
            () = tick(self.resync.as_mut()) => Next::Resync,
            event = self.subscription.next() => match event {
                Some(event) => Next::Event(event),
                None if self.subscription.ended() == Some(Ended::Lagged) => Next::End(HandlerState::Lagged),
                None => Next::End(HandlerState::Stopped),
            },
        }
    }

    /// Calls the handler; gives how it ends, if it does.
    async fn deliver(&mut self, event: Event<K>) -> Option<HandlerState> {
        let object = event.object().cloned();
        let synced = matches!(event, Event::Synced);
        let called = self.call(event).await;
        if synced {
            self.member.registration.set_synced();
        }
        called.err().and_then(|payload| self.panicked(payload, object.as_ref()))
    }

    /// Calls the handler, and looks at how long that takes.
    async fn call(&mut self, event: Event<K>) -> Result<(), Payload> {
        let started = Instant::now();
        let (handler, subscription, meters) = (&mut self.handler, &self.subscription, &mut self.meters);
        // In a block: a panic of the method itself, before it gives a future, is caught too.
        let call = async move { handler.on_event(event).await };
        let call = INSIDE.scope(self.member.registration.id(), call);
        let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
        let mut look_at = started + SLOW;
        let result = loop {
            tokio::select! {
                biased;
                result = &mut call => break result,
                () = tokio::time::sleep_until(look_at) => {
                    meters.look(started.elapsed(), subscription.lag());
                    look_at += LOOK_EVERY;
                }
            }
        };
        let elapsed = started.elapsed();
        meters.seconds.record(elapsed);
        meters.look(elapsed, subscription.lag());
        result
    }

    /// After a panic; gives how the handler ends, if it does.
    fn panicked(&mut self, payload: Payload, object: Option<&Object<K>>) -> Option<HandlerState> {
        let message: Arc<str> = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).into(),
            (_, Some(text)) => text.as_str().into(),
            _ => "no message".into(),
        };
        self.meters.panics.increment(1);
        let key = object.map(|object| tracing::field::display(object.key()));
        error!(handler = self.member.registration.name(), object = key, "the handler panicked: {message}");
        match self.on_panic {
            OnPanic::Isolate => return None,
            OnPanic::Stop => {}
            OnPanic::Propagate => self.member.roster.keep_panic(payload),
        }
        Some(HandlerState::Panicked(message))
    }
}

/// The next tick of the interval, if there is one.
async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// Ticks at this interval, from one interval after now. A tick that is late delays the ones after it.
pub(super) fn every(period: Duration) -> Interval {
    let start = Instant::now();
    // "Never" is often written as `Duration::MAX`.
    let period = period.min(Duration::from_secs(100 * 365 * 86_400));
    let mut interval = interval_at(start + period, period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// What is measured of a handler. The names are listed in `docs/observability.md`.
pub(super) struct Meters {
    handler: Arc<str>,
    panics: Counter,
    lag: Gauge,
    seconds: Histogram,
    /// A warning was given, and the handler has not caught up since.
    warned: bool,
}

impl Meters {
    pub(super) fn new(resource: &str, handler: &str) -> Self {
        let labels = [("resource", resource.to_owned()), ("handler", handler.to_owned())];
        Self {
            handler: handler.into(),
            panics: counter!("reflector_handler_panics_total", &labels),
            lag: gauge!("reflector_handler_lag", &labels),
            seconds: histogram!("reflector_handler_seconds", &labels),
            warned: false,
        }
    }

    /// After a call, and now and then while one lasts.
    #[expect(clippy::cast_precision_loss, reason = "nobody has so many objects")]
    fn look(&mut self, elapsed: Duration, lag: Lag) {
        self.lag.set((lag.waiting + lag.present) as f64);
        if lag.waiting <= MANY {
            self.warned = false;
        } else if elapsed > SLOW && !self.warned {
            self.warned = true;
            warn!(
                handler = &*self.handler,
                waiting = lag.waiting,
                ?elapsed,
                "the handler is slow, and changes wait for it"
            );
        }
    }
}

impl Drop for Meters {
    /// A handler that is gone has nothing waiting.
    fn drop(&mut self) {
        self.lag.set(0.0);
    }
}

//! Faults: which requests they hit, how often, and what they do.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, header};

use super::{Effect, ErrorBody, Gzip, InitialEventsEnd, Interruption, Point, Respond};
use crate::request::{RequestInfo, Verb};

/// A fault: a match on requests and what happens to those that match.
///
/// ```
/// use reflector_apiserver::{Verb, faults::Fault};
///
/// let busy = Fault::on(Verb::Watch).resource("pods").times(3).status(429).retry_after(2);
/// let same = "watch:pods:status=429,retry-after=2,times=3".parse::<Fault>()?;
/// assert_eq!(busy, same);
/// # Ok::<(), reflector_apiserver::faults::FaultSyntaxError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub(super) verbs: Vec<Verb>,
    pub(super) resource: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) times: Option<u64>,
    pub(super) skip: u64,
    pub(super) every: u64,
    pub(super) probability: f64,
    pub(super) cooldown: Duration,
    pub(super) between: Option<(Duration, Duration)>,
    pub(super) respond: Option<Respond>,
    pub(super) effects: Vec<Effect>,
}

/// Which requests.
impl Fault {
    /// A fault for every request on a resource.
    pub fn any() -> Self {
        Self {
            verbs: Vec::new(),
            resource: None,
            namespace: None,
            name: None,
            times: None,
            skip: 0,
            every: 1,
            probability: 1.0,
            cooldown: Duration::ZERO,
            between: None,
            respond: None,
            effects: Vec::new(),
        }
    }

    /// A fault for the requests with this verb.
    pub fn on(verb: Verb) -> Self {
        Self::any().or_on(verb)
    }

    /// Also for requests with this verb.
    #[must_use]
    pub fn or_on(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only for this resource: its plural name, such as `pods`.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Only for requests in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only for requests on the object of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// At most so many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Lets so many matching requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Only every `n`-th matching request, beginning with the first.
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.every = n.max(1);
        self
    }

    /// Only with this probability (0 to 1), drawn from the injector's seed.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability.clamp(0.0, 1.0);
        self
    }

    /// Not again before so much time has passed.
    #[must_use]
    pub fn cooldown(mut self, pause: Duration) -> Self {
        self.cooldown = pause;
        self
    }

    /// Only between these two times since the server's start.
    #[must_use]
    pub fn between(mut self, from: Duration, to: Duration) -> Self {
        self.between = Some((from, to));
        self
    }

    pub(super) fn matches(&self, info: &RequestInfo) -> bool {
        let is = |wanted: &Option<String>, have: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| have == Some(wanted))
        };
        (self.verbs.is_empty() || self.verbs.contains(&info.verb))
            && is(&self.resource, Some(&info.resource))
            && is(&self.namespace, info.namespace.as_deref())
            && is(&self.name, info.name.as_deref())
    }
}

/// The answer is made up.
impl Fault {
    /// Answers with this status and a Kubernetes Status as its body. A code that HTTP does not know becomes 500.
    #[must_use]
    pub fn status(mut self, code: u16) -> Self {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.made_up().status = status;
        self
    }

    /// The Status body's `reason`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.made_up().reason = Some(reason.into());
        self
    }

    /// The Status body's `message`.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.made_up().message = Some(message.into());
        self
    }

    /// The header `Retry-After`, in whole seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// A further header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.made_up().headers.push((name, value));
        self
    }

    /// What the answer's body is.
    #[must_use]
    pub fn body(mut self, body: ErrorBody) -> Self {
        self.made_up().body = body;
        self
    }

    fn made_up(&mut self) -> &mut Respond {
        self.respond.get_or_insert_with(Respond::default)
    }
}

/// The answer is disturbed.
impl Fault {
    /// Adds any effect.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Waits before the request is looked at.
    #[must_use]
    pub fn delay(self, pause: Duration) -> Self {
        self.effect(Effect::Delay(pause))
    }

    /// Stops the answer somewhere.
    #[must_use]
    pub fn interrupt(self, at: Point, how: Interruption) -> Self {
        self.effect(Effect::Interrupt(at, how))
    }

    /// Never answers.
    #[must_use]
    pub fn hang(self) -> Self {
        self.interrupt(Point::Request, Interruption::Hang)
    }

    /// `200 OK` and a clean end at once, with an empty body.
    #[must_use]
    pub fn end_at_once(self) -> Self {
        self.interrupt(Point::Events(0), Interruption::End)
    }

    /// Closes the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after_bytes(self, bytes: u64) -> Self {
        self.interrupt(Point::Bytes(bytes), Interruption::Close)
    }

    /// Closes the connection after so many events.
    #[must_use]
    pub fn cut_after_events(self, events: u64) -> Self {
        self.interrupt(Point::Events(events), Interruption::Close)
    }

    /// Ends the watch cleanly after so many events.
    #[must_use]
    pub fn end_after_events(self, events: u64) -> Self {
        self.interrupt(Point::Events(events), Interruption::End)
    }

    /// Resets the connection instead of answering.
    #[must_use]
    pub fn reset(self) -> Self {
        self.interrupt(Point::Request, Interruption::Reset)
    }

    /// Stops reading and writing on the whole connection after the head, and keeps it open.
    #[must_use]
    pub fn blackhole(self) -> Self {
        self.interrupt(Point::Head, Interruption::Blackhole)
    }

    /// Sends an `ERROR` event with this code after so many events, then ends.
    #[must_use]
    pub fn error_event(self, code: u16, after_events: u64) -> Self {
        self.interrupt(Point::Events(after_events), Interruption::Error { code, reason: None, message: None })
    }

    /// Does this to the bookmark that ends the initial events.
    #[must_use]
    pub fn initial_events_end(self, what: InitialEventsEnd) -> Self {
        self.effect(Effect::InitialEventsEnd(what))
    }

    /// Loses these query parameters on the way.
    #[must_use]
    pub fn ignore_query<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.effect(Effect::IgnoreQuery(names.into_iter().map(Into::into).collect()))
    }

    /// Loses what an old server or proxy does not know of streaming lists.
    #[must_use]
    pub fn ignore_send_initial_events(self) -> Self {
        self.ignore_query(["sendInitialEvents", "resourceVersionMatch"])
            .initial_events_end(InitialEventsEnd::Missing)
    }

    /// Answers every continue token with `410 Expired`.
    #[must_use]
    pub fn expire_continue(self) -> Self {
        self.effect(Effect::ExpireContinue)
    }

    /// At most so many bytes at a time, with a pause after each.
    #[must_use]
    pub fn slow(self, bytes: usize, pause: Duration) -> Self {
        self.effect(Effect::Slow(bytes.max(1), pause))
    }

    /// Compresses the body, for clients that accept gzip.
    #[must_use]
    pub fn gzip(self, how: Gzip) -> Self {
        self.effect(Effect::Gzip(how))
    }
}

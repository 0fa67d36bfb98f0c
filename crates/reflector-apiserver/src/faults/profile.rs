//! Named mixtures of faults, drawn per request from a seed.
//!
//! Whatever a profile draws, a client that retries makes progress: faults have probabilities, after some bad requests in a row
//! one gets through, and restarts and history cuts keep their distance. Nothing that a client could not notice is in them: no
//! silent socket, no undecodable object.

use std::{fmt, str::FromStr, time::Duration};

use http::{HeaderValue, StatusCode, header};

use super::{Effect, ErrorBody, Gzip, InitialEventsEnd, Interruption, Point, Respond};
use crate::request::Verb;

/// A named mixture of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Nothing goes wrong.
    #[default]
    None,
    /// Now and then, as on an ordinary bad day: one request in ten.
    Some,
    /// Four requests in five, with restarts and lost history.
    Storm,
}

/// The word names no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{0}`: expected none, some or storm")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        match text {
            "none" => Ok(Self::None),
            "some" => Ok(Self::Some),
            "storm" => Ok(Self::Storm),
            other => Err(UnknownProfile(other.to_owned())),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Some => "some",
            Self::Storm => "storm",
        })
    }
}

/// What a profile does to one request.
#[derive(Debug, Default)]
pub(super) struct Draw {
    pub(super) respond: Option<Respond>,
    pub(super) effects: Vec<Effect>,
    /// Does it concern the whole server?
    pub(super) upheaval: bool,
}

impl Profile {
    /// Draws; with `calm` nothing that concerns the whole server.
    pub(super) fn draw(self, verb: Verb, calm: bool, rng: &mut fastrand::Rng) -> Option<Draw> {
        let probability = match self {
            Self::None => return None,
            Self::Some => 0.1,
            Self::Storm => 0.8,
        };
        if rng.f64() >= probability {
            return None;
        }
        if self == Self::Storm && !calm && rng.f64() < 0.1 {
            let effect = if rng.bool() { Effect::Restart } else { Effect::ForgetHistory };
            return Some(Draw { effects: vec![effect], upheaval: true, respond: None });
        }
        match verb {
            Verb::List => Some(list(rng)),
            Verb::Watch => Some(watch(rng)),
            // Reads and writes of single objects are not what is tested here.
            _ => None,
        }
    }
}

fn list(rng: &mut fastrand::Rng) -> Draw {
    match rng.u8(..10) {
        0 | 1 => too_many(rng),
        2 => refuse(503, ErrorBody::Text("service unavailable\n".to_owned())),
        3 => refuse(500, ErrorBody::PrettyStatus),
        4 => refuse(502, ErrorBody::Html("<html><body>502 Bad Gateway</body></html>\n".to_owned())),
        5 => stop(Point::Request, Interruption::Reset),
        6 => stop(Point::Bytes(rng.u64(..20_000)), Interruption::Close),
        7 => effect(Effect::ExpireContinue),
        8 => effect(Effect::Delay(Duration::from_millis(rng.u64(50..1_000)))),
        _ => effect(Effect::Slow(rng.usize(2_000..40_000), Duration::from_millis(5))),
    }
}

fn watch(rng: &mut fastrand::Rng) -> Draw {
    let events = rng.u64(..60);
    match rng.u8(..14) {
        0 => too_many(rng),
        1 => refuse(410, ErrorBody::Status),
        2 => refuse(500, ErrorBody::PrettyStatus),
        3 => stop(Point::Events(0), Interruption::End),
        4 => stop(Point::Request, Interruption::Close),
        5 => stop(Point::Events(events), Interruption::Reset),
        6 => stop(Point::Bytes(rng.u64(..100_000)), Interruption::Close),
        7 => stop(Point::After(Duration::from_millis(rng.u64(500..10_000))), Interruption::End),
        8 => stop(Point::Events(events), error(410)),
        9 => stop(Point::Events(events), error(500)),
        10 => effect(Effect::DuplicateEvents),
        11 => effect(Effect::InitialEventsEnd(InitialEventsEnd::Late(Duration::from_millis(500)))),
        12 => effect(Effect::Gzip(Gzip::MemberPerEvent)),
        _ => effect(Effect::Chunks(rng.usize(1..64))),
    }
}

fn error(code: u16) -> Interruption {
    Interruption::Error { code, reason: None, message: None }
}

fn effect(effect: Effect) -> Draw {
    Draw { effects: vec![effect], ..Draw::default() }
}

fn stop(point: Point, how: Interruption) -> Draw {
    effect(Effect::Interrupt(point, how))
}

fn refuse(code: u16, body: ErrorBody) -> Draw {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Draw { respond: Some(Respond { status, body, ..Respond::default() }), ..Draw::default() }
}

fn too_many(rng: &mut fastrand::Rng) -> Draw {
    let mut draw = refuse(429, ErrorBody::Text("Too many requests, please try again later.\n".to_owned()));
    if let (Some(respond), true) = (&mut draw.respond, rng.bool()) {
        respond.headers.push((header::RETRY_AFTER, HeaderValue::from_static("1")));
    }
    draw
}

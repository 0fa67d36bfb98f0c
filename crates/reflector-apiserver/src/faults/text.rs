//! Faults as text, for command lines and files.
//!
//! `VERBS[:RESOURCE[:NAMESPACE]]:SETTING[,SETTING...]`, where VERBS are verbs joined by `+`, or `*` for all, and a RESOURCE or
//! NAMESPACE of `*` or nothing is any. A setting is `NAME` or `NAME=VALUE`:
//!
//! | setting | meaning |
//! |---|---|
//! | `times=N` `once` `after=N` `every=N` `probability=P` `cooldown=TIME` `between=TIME..TIME` `name=NAME` | which requests |
//! | `status=CODE` `reason=WORD` `message=TEXT` `retry-after=SECONDS` `header=NAME:VALUE` | a made-up answer with a Status |
//! | `pretty` `text=TEXT` `html=TEXT` `empty` | another body for it |
//! | `delay=TIME` | wait first |
//! | `end[=POINT]` `cut[=POINT]` `reset[=POINT]` `hang[=POINT]` `blackhole[=POINT]` `error=CODE[@POINT]` | stop the answer |
//! | `initial-events-end=missing`, `=plain` or `=TIME` | the end bookmark: gone, without its mark, late |
//! | `ignore-query=NAME[+NAME...]` `ignore-send-initial-events` | parameters lost on the way |
//! | `duplicate-events` `regress-versions` `undecodable[=N]` `without-metadata[=N]` `unknown-type[=N]` | changed events and items |
//! | `forget-history` `compact` `expire-continue` `restart` `rewind=N` | server-side |
//! | `slow=BYTES@TIME` `chunks=BYTES` `gzip=whole` or `=events` | the way of the bytes |
//! | `opaque-versions` `empty-list-version` `items-first` `items-null` | other servers' habits |
//!
//! A POINT is `request`, `head`, `N bytes` (`100bytes`), `N events` (`3events`) or a TIME after the head; a TIME is `500ms`, `3s`, `2m`.

use std::{str::FromStr, time::Duration};

use http::{HeaderName, HeaderValue};

use super::{Effect, ErrorBody, Fault, Gzip, InitialEventsEnd, Interruption, Point};
use crate::request::{UnknownVerb, Verb};

/// Why a text is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultSyntaxError {
    /// There is no `:` between the verbs and the settings.
    #[error("expected VERBS[:RESOURCE[:NAMESPACE]]:SETTINGS, found `{0}`")]
    Shape(String),
    /// No such verb.
    #[error(transparent)]
    Verb(#[from] UnknownVerb),
    /// No such setting.
    #[error("unknown setting `{0}`")]
    Setting(String),
    /// The setting's value cannot be read.
    #[error("`{setting}` does not take the value `{value}`")]
    Value {
        /// The setting's name.
        setting: String,
        /// What was given.
        value: String,
    },
}

impl FromStr for Fault {
    type Err = FaultSyntaxError;

    fn from_str(text: &str) -> Result<Self, FaultSyntaxError> {
        let segments: Vec<&str> = text.splitn(4, ':').collect();
        // The settings begin with the first segment that has a `=`, or are the last one; they may hold colons themselves.
        let last = segments.len() - 1;
        let settings = (1..=last).find(|at| segments[*at].contains('=')).unwrap_or(last);
        if settings == 0 {
            return Err(FaultSyntaxError::Shape(text.to_owned()));
        }
        let mut fault = Self::any();
        if segments[0] != "*" {
            for verb in segments[0].split('+') {
                fault = fault.or_on(verb.parse::<Verb>()?);
            }
        }
        let named =
            |at: usize| (at < settings).then(|| segments[at]).filter(|name| !matches!(*name, "" | "*"));
        if let Some(resource) = named(1) {
            fault = fault.resource(resource);
        }
        if let Some(namespace) = named(2) {
            fault = fault.namespace(namespace);
        }
        for setting in segments[settings..].join(":").split(',').filter(|setting| !setting.is_empty()) {
            let (name, value) = match setting.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (setting, None),
            };
            fault = set(fault, name.trim(), value)?;
        }
        Ok(fault)
    }
}

fn set(fault: Fault, name: &str, value: Option<&str>) -> Result<Fault, FaultSyntaxError> {
    let wrong =
        || FaultSyntaxError::Value { setting: name.to_owned(), value: value.unwrap_or_default().to_owned() };
    let text = value.unwrap_or_default();
    // A value that does not parse is an error, and so is one that is missing.
    let number = || text.parse::<u64>().map_err(|_| wrong());
    let nth = || value.map_or(Ok(1), |value| value.parse::<u64>().map_err(|_| wrong()));
    let time = || duration(text).ok_or_else(wrong);
    let at = |default: Point| value.map_or(Ok(default), |value| point(value).ok_or_else(wrong));
    let size = |text: &str| text.parse::<usize>().ok().filter(|size| *size > 0).ok_or_else(wrong);
    if let Some(effect) = without_value(name) {
        return if value.is_none() { Ok(fault.effect(effect)) } else { Err(wrong()) };
    }
    Ok(match name {
        "times" => fault.times(number()?),
        "once" => fault.once(),
        "after" => fault.after(number()?),
        "every" => fault.every(number()?),
        "probability" => fault.probability(text.parse().map_err(|_| wrong())?),
        "cooldown" => fault.cooldown(time()?),
        "between" => {
            let (from, to) = range(text).ok_or_else(wrong)?;
            fault.between(from, to)
        }
        "name" => fault.name(text),
        "status" => {
            fault.status(text.parse().ok().filter(|code| (100..1000).contains(code)).ok_or_else(wrong)?)
        }
        "reason" => fault.reason(text),
        "message" => fault.message(text),
        "retry-after" => fault.retry_after(text.parse().map_err(|_| wrong())?),
        "header" => {
            let (name, value) = header(text).ok_or_else(wrong)?;
            fault.header(name, value)
        }
        "pretty" | "text" | "html" | "empty" => fault.body(error_body(name, text)),
        "delay" => fault.delay(time()?),
        "end" => fault.interrupt(at(Point::Events(0))?, Interruption::End),
        "cut" => fault.interrupt(at(Point::Head)?, Interruption::Close),
        "reset" => fault.interrupt(at(Point::Request)?, Interruption::Reset),
        "hang" => fault.interrupt(at(Point::Request)?, Interruption::Hang),
        "blackhole" => fault.interrupt(at(Point::Head)?, Interruption::Blackhole),
        "error" => {
            let (at, error) = error_event(text).ok_or_else(wrong)?;
            fault.interrupt(at, error)
        }
        "initial-events-end" => fault.initial_events_end(match text {
            "missing" => InitialEventsEnd::Missing,
            "plain" => InitialEventsEnd::Plain,
            _ => InitialEventsEnd::Late(time()?),
        }),
        "ignore-query" if value.is_some() => fault.ignore_query(text.split('+')),
        "ignore-send-initial-events" => fault.ignore_send_initial_events(),
        "undecodable" => fault.effect(Effect::Undecodable(nth()?)),
        "without-metadata" => fault.effect(Effect::WithoutMetadata(nth()?)),
        "unknown-type" => fault.effect(Effect::UnknownType(nth()?)),
        "rewind" => fault.effect(Effect::Rewind(number()?)),
        "slow" => {
            let (bytes, pause) = text.split_once('@').ok_or_else(wrong)?;
            fault.slow(size(bytes)?, duration(pause).ok_or_else(wrong)?)
        }
        "chunks" => fault.effect(Effect::Chunks(size(text)?)),
        "gzip" => match text {
            "whole" => fault.gzip(Gzip::Whole),
            "events" => fault.gzip(Gzip::MemberPerEvent),
            _ => return Err(wrong()),
        },
        _ => return Err(FaultSyntaxError::Setting(name.to_owned())),
    })
}

/// The body of a refusal.
fn error_body(name: &str, text: &str) -> ErrorBody {
    match name {
        "text" => ErrorBody::Text(text.to_owned()),
        "html" => ErrorBody::Html(text.to_owned()),
        "empty" => ErrorBody::Empty,
        _ => ErrorBody::PrettyStatus,
    }
}

/// The effects that take no value.
fn without_value(name: &str) -> Option<Effect> {
    Some(match name {
        "duplicate-events" => Effect::DuplicateEvents,
        "regress-versions" => Effect::RegressVersions,
        "forget-history" => Effect::ForgetHistory,
        "compact" => Effect::Compact,
        "expire-continue" => Effect::ExpireContinue,
        "restart" => Effect::Restart,
        "opaque-versions" => Effect::OpaqueVersions,
        "empty-list-version" => Effect::EmptyListVersion,
        "items-first" => Effect::ItemsFirst,
        "items-null" => Effect::ItemsNull,
        _ => return None,
    })
}

/// `1s..5s`
fn range(text: &str) -> Option<(Duration, Duration)> {
    let (from, to) = text.split_once("..")?;
    Some((duration(from)?, duration(to)?))
}

/// `Name: value`
fn header(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':')?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    Some((name, HeaderValue::from_str(value.trim()).ok()?))
}

/// `410` or `410@5events`
fn error_event(text: &str) -> Option<(Point, Interruption)> {
    let (code, at) = text.split_once('@').unwrap_or((text, "0events"));
    let error = Interruption::Error { code: code.parse().ok()?, reason: None, message: None };
    Some((point(at)?, error))
}

fn point(text: &str) -> Option<Point> {
    match text {
        "request" => return Some(Point::Request),
        "head" => return Some(Point::Head),
        _ => {}
    }
    if let Some(bytes) = text.strip_suffix("bytes") {
        return bytes.parse().ok().map(Point::Bytes);
    }
    if let Some(events) = text.strip_suffix("events") {
        return events.parse().ok().map(Point::Events);
    }
    duration(text).map(Point::After)
}

/// `500ms`, `3s`, `2m`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Fault {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_rust_say_the_same() {
        let same = [
            (
                "watch:pods:status=429,retry-after=2,times=3",
                Fault::on(Verb::Watch).resource("pods").times(3).status(429).retry_after(2),
            ),
            ("*:end", Fault::any().end_at_once()),
            ("list+watch:*:ns:hang", Fault::on(Verb::List).or_on(Verb::Watch).namespace("ns").hang()),
            ("list:cut=100bytes", Fault::on(Verb::List).cut_after_bytes(100)),
            ("watch:error=410@5events,once", Fault::on(Verb::Watch).error_event(410, 5).once()),
            (
                "watch:initial-events-end=2s",
                Fault::on(Verb::Watch).initial_events_end(InitialEventsEnd::Late(Duration::from_secs(2))),
            ),
            (
                "list:pods:status=404,text=a:b:c",
                Fault::on(Verb::List).resource("pods").status(404).body(ErrorBody::Text("a:b:c".into())),
            ),
            (
                "*:slow=10@50ms,chunks=1",
                Fault::any().slow(10, Duration::from_millis(50)).effect(Effect::Chunks(1)),
            ),
            (
                "*:between=1s..2m,delay=3s",
                Fault::any()
                    .between(Duration::from_secs(1), Duration::from_secs(120))
                    .delay(Duration::from_secs(3)),
            ),
            ("watch:ignore-query=a+b", Fault::on(Verb::Watch).ignore_query(["a", "b"])),
        ];
        for (text, fault) in same {
            assert_eq!(parse(text), fault, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Fault>().unwrap_err().to_string();
        assert_eq!(error("watch"), "expected VERBS[:RESOURCE[:NAMESPACE]]:SETTINGS, found `watch`");
        assert!(error("wach:hang").starts_with("unknown verb `wach`"));
        assert_eq!(error("watch:pods:hung"), "unknown setting `hung`");
        assert_eq!(error("watch:times=many"), "`times` does not take the value `many`");
        assert_eq!(error("watch:slow=0@1s"), "`slow` does not take the value `0@1s`");
        assert_eq!(error("watch:status=99999"), "`status` does not take the value `99999`");
        assert!("".parse::<Fault>().is_err());
        assert!("::::,,,==".parse::<Fault>().is_err());
    }
}

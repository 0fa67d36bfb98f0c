//! Query parameters, decoded as Go and the generated conversions of `ListOptions` do it.

use std::time::Duration;

use super::{
    fields::FieldSelector,
    selector::LabelSelector,
    status::{Outcome, Status},
};

/// The parameters of a request in their order; of a repeated name the first value counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and unescapes; like Go, a pair that is not well-formed is left out.
    pub(super) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (!part.is_empty() && !part.contains(';')).then_some(())?;
            Some((unescape(name, true)?, unescape(value, true)?))
        };
        Self(text.split('&').filter_map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Absent, `0` and `false` are false, everything else is true, the empty value too.
    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.flag(name).unwrap_or(false)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        !self.text("dryRun").is_empty()
    }

    fn integer(&self, name: &str) -> Outcome<Option<i64>> {
        self.get(name).map(parse_int).transpose()
    }

    /// Decodes the options of a list or watch, in the order of the generated code: the first error ends it.
    pub(super) fn list_options(&self) -> Outcome<ListOptions> {
        let labels = LabelSelector::parse(self.text("labelSelector")).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(self.text("fieldSelector")).map_err(Status::bad_request)?;
        Ok(ListOptions {
            labels,
            fields,
            watch: self.is_set("watch"),
            bookmarks: self.is_set("allowWatchBookmarks"),
            version: self.text("resourceVersion").to_owned(),
            version_match: self.text("resourceVersionMatch").to_owned(),
            timeout_seconds: self.integer("timeoutSeconds")?.unwrap_or(0),
            limit: self.integer("limit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
            continue_token: self.text("continue").to_owned(),
            send_initial_events: self.flag("sendInitialEvents"),
        })
    }

    /// The deadline of a request that is no watch: the parameter `timeout` can only shorten it.
    pub(super) fn timeout(&self) -> Outcome<Duration> {
        let text = self.text("timeout");
        if text.is_empty() {
            return Ok(REQUEST_TIMEOUT);
        }
        let timeout = parse_duration(text).map_err(|e| {
            Status::bad_request(format!("invalid timeout specified in the request URL - {e}"))
        })?;
        Ok(if timeout.is_zero() { REQUEST_TIMEOUT } else { timeout.min(REQUEST_TIMEOUT) })
    }
}

/// `--request-timeout` of kube-apiserver.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// `ListOptions` of meta/v1 after decoding.
#[derive(Debug, Clone, Default)]
pub(super) struct ListOptions {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
    pub(super) watch: bool,
    pub(super) bookmarks: bool,
    pub(super) version: String,
    pub(super) version_match: String,
    pub(super) timeout_seconds: i64,
    /// 0 is no limit; negative ones are none either.
    pub(super) limit: usize,
    pub(super) continue_token: String,
    pub(super) send_initial_events: Option<bool>,
}

/// Undoes percent encoding; `None` if it is broken or no UTF-8.
pub(super) fn unescape(text: &str, plus_is_blank: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
                u8::try_from(value).ok()?
            }
            b'+' if plus_is_blank => b' ',
            _ => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Go's `strconv.ParseInt` in base 10.
fn parse_int(text: &str) -> Outcome<i64> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": {why}"))
    })
}

/// A resourceVersion as the storage reads it: 64 bits without sign.
pub(super) fn parse_version(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {why}")
    })
}

/// Go's `time.ParseDuration`; negative durations come out as the shortest positive one.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration \"{text}\"");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| invalid())?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += number
            * match &rest[..end] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "" => return Err(format!("time: missing unit in duration \"{text}\"")),
                unit => {
                    return Err(format!("time: unknown unit \"{unit}\" in duration \"{text}\""));
                }
            };
        rest = &rest[end..];
    }
    if negative {
        return Ok(Duration::from_nanos(1));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_true_unless_they_say_false() {
        let query = Query::parse("a&b=&c=0&d=FALSE&e=false&f=no&g=1&g=0");
        let set: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "absent"].map(|n| query.is_set(n)).into();
        assert_eq!(set, [true, true, false, false, false, true, true, false]);
    }

    #[test]
    fn broken_pairs_are_dropped_and_escapes_undone() {
        let query = Query::parse("x=%zz&y=a%3Db+c&=&z;=1");
        assert_eq!((query.get("x"), query.get("y"), query.get("z;")), (None, Some("a=b c"), None));
    }

    #[test]
    fn integers_fail_with_gos_words() {
        for (text, why) in
            [("abc", "invalid syntax"), ("", "invalid syntax"), ("9223372036854775808", "value out of range")]
        {
            let error = Query::parse(&format!("limit={text}")).list_options().unwrap_err();
            assert_eq!(error.message, format!("strconv.ParseInt: parsing \"{text}\": {why}"));
        }
        assert_eq!(Query::parse("limit=-3").list_options().unwrap().limit, 0);
    }

    #[test]
    fn versions_are_unsigned_decimals() {
        assert_eq!(parse_version("18446744073709551615"), Ok(u64::MAX));
        for text in ["abc", "-1", "+1", " 1", "1.0"] {
            assert!(parse_version(text).unwrap_err().ends_with(": invalid syntax"), "{text}");
        }
        assert!(parse_version("18446744073709551616").unwrap_err().ends_with(": value out of range"));
    }

    #[test]
    fn durations_are_gos() {
        assert_eq!(parse_duration("1m2.5s"), Ok(Duration::from_millis(62_500)));
        assert_eq!(parse_duration("1us"), Ok(Duration::from_micros(1)));
        assert_eq!(parse_duration("abc").unwrap_err(), "time: invalid duration \"abc\"");
        assert_eq!(parse_duration("5").unwrap_err(), "time: missing unit in duration \"5\"");
        assert_eq!(parse_duration("5x").unwrap_err(), "time: unknown unit \"x\" in duration \"5x\"");
    }
}

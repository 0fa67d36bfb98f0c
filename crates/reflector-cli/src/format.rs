//! Durations, sizes and JSON as people want them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `10s`, `1m30s`, `500ms`, `2h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write it like 10s, 1m30s or 500ms");
    let duration: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// A time as `kubectl` shows ages: two units at the most, the coarser the longer.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |major: u64, unit: char, minor: u64, small: char| match minor {
        0 => format!("{major}{unit}"),
        _ => format!("{major}{unit}{minor}{small}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// The age of something made at an RFC 3339 time.
pub(crate) fn age_since(made: &str, now: Timestamp) -> String {
    match made.parse::<Timestamp>() {
        // Clocks differ: what comes from the future is new.
        Ok(made) => age(Duration::try_from(now.duration_since(made)).unwrap_or_default()),
        Err(_) if made.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A wait, for a sentence: `0.8 s`, `60 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 9.95 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// `12.3 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 1000.0 {
            return if unit == "B" { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// `1 object`, `2 objects`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// JSON without the blanks between its tokens: one line.
pub(crate) fn compact_json(json: &[u8]) -> Vec<u8> {
    let mut compact = Vec::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for &byte in json {
        if in_text {
            compact.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            compact.push(byte);
            in_text = byte == b'"';
        }
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        for text in ["", "10", "-3s", "soon"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_are_kubectls() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(Duration::from_secs(seconds)), expected, "{seconds}");
        }
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(age_since("2026-01-01T00:00:00Z", now), "60s");
        assert_eq!(age_since("2027-01-01T00:00:00Z", now), "0s");
        assert_eq!(age_since("", now), "<unknown>");
        assert_eq!(age_since("yesterday", now), "<invalid>");
    }

    #[test]
    fn compact_json_keeps_its_texts() {
        let json = b"{\n  \"a b\": [ 1,\t\"x \\\" y\\\\\" , null ]\r\n}";
        assert_eq!(compact_json(json), br#"{"a b":[1,"x \" y\\",null]}"#);
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(12_340_000), "12.3 MB");
        assert_eq!(counted(1, "object"), "1 object");
        assert_eq!(counted(0, "object"), "0 objects");
        assert_eq!(seconds(Duration::from_millis(840)), "0.8 s");
        assert_eq!(seconds(Duration::from_secs(60)), "60 s");
    }
}

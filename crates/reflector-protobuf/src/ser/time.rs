//! RFC 3339 read as Go reads it.

/// Seconds since 1970, and nanoseconds. The date has to exist; there are no leap seconds.
pub(super) fn parse(text: &str) -> Option<(i64, u32)> {
    let (date, rest) = text.as_bytes().split_at_checked(19)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2] = date else {
        return None;
    };
    let year = two(y1, y2)? * 100 + two(y3, y4)?;
    let (month, day) = (two(m1, m2)?, two(d1, d2)?);
    let (hour, minute, second) = (two(h1, h2)?, two(n1, n2)?, two(s1, s2)?);
    let leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leaps => 29,
        2 => 28,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, zone) = fraction(rest)?;
    let east = match *zone {
        [b'Z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let east = hours * 3600 + minutes * 60;
            if sign == b'+' { east } else { -east }
        }
        _ => return None,
    };
    // Howard Hinnant's `days_from_civil`: years that begin in March, in eras of 400.
    let shifted = if month > 2 { year } else { year - 1 };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - east, nanos))
}

/// What is behind the seconds: nanoseconds (further digits are dropped), and the zone.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some(digits) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let len = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
    let (digits, zone) = digits.split_at_checked(len)?;
    if digits.is_empty() {
        return None;
    }
    let nine = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some((nine.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0')), zone))
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_time_is_none() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(parse("0000-02-29T00:00:00Z"), Some((-62_162_121_600, 0)));
        assert_eq!(parse("2000-02-29T01:00:00.5+01:30"), Some((951_780_600, 500_000_000)));
        assert_eq!(parse("1970-01-01T00:00:00.1234567891Z"), Some((0, 123_456_789)));
        for text in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01t00:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-04-31T00:00:00Z",
            "1970-01-00T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z",
            "1970-01-01T00:00:60Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00+00:60",
            "1970-01-01T00:00:00ZZ",
            "1970-01-01T00:00:0éZ",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_are_those_of_a_library(
            seconds in -62_167_219_200i64 + 86_400..253_402_207_200 - 86_400,
            nanos in 0..1_000_000_000u32,
            offset in -1439..1440i32,
        ) {
            let time = jiff::Timestamp::new(seconds, 0).unwrap() + jiff::SignedDuration::from_nanos(nanos.into());
            prop_assert_eq!(parse(&time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()), Some((seconds, nanos)));
            let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(offset * 60).unwrap());
            let text = time.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
            prop_assert_eq!(parse(&text), Some((seconds, 0)));
        }

        #[test]
        fn no_text_makes_it_panic(text: String, cut in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.{0,12}") {
            parse(&text);
            parse(&cut);
        }
    }
}

//! `Time` and `MicroTime` as RFC 3339 in UTC, without an allocation.

use crate::error::{Error, ErrorKind};

/// Go's zero time, year 1, which is null in JSON.
pub(crate) const GO_ZERO: i64 = -62_135_596_800;

const DAY: i64 = 86_400;

/// A short text on the stack.
#[derive(Clone, Copy)]
pub(super) struct TimeText {
    bytes: [u8; 27],
    len: u8,
}

impl TimeText {
    #[inline]
    pub(super) fn as_str(&self) -> &str {
        // Only digits and signs are in it.
        self.bytes.get(..self.len.into()).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

/// `2006-01-02T15:04:05Z`, or with `micros` `2006-01-02T15:04:05.000000Z`.
pub(super) fn format(seconds: i64, micros: Option<u32>) -> Result<TimeText, Error> {
    let days = seconds.div_euclid(DAY);
    let second = seconds.rem_euclid(DAY) as u32;
    // The algorithm of Howard Hinnant's `civil_from_days`: eras of 400 years that begin on March 1st of year 0.
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097) as u32;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + i64::from(year_of_era) + i64::from(month <= 2);
    let year = match u32::try_from(year) {
        Ok(year) if year <= 9999 => year,
        _ => return Err(ErrorKind::Time { seconds }.into()),
    };
    let mut bytes = *b"0000-00-00T00:00:00.000000Z";
    let [y1, y2, y3, y4, _, m1, m2, _, d1, d2, _, h1, h2, _, n1, n2, _, s1, s2, dot, rest @ ..] = &mut bytes;
    (*y1, *y2) = two(year / 100);
    (*y3, *y4) = two(year % 100);
    (*m1, *m2) = two(month);
    (*d1, *d2) = two(day);
    (*h1, *h2) = two(second / 3600);
    (*n1, *n2) = two(second / 60 % 60);
    (*s1, *s2) = two(second % 60);
    let Some(micros) = micros else {
        *dot = b'Z';
        return Ok(TimeText { bytes, len: 20 });
    };
    let [u1, u2, u3, u4, u5, u6, _] = rest;
    (*u1, *u2) = two(micros / 10_000);
    (*u3, *u4) = two(micros / 100 % 100);
    (*u5, *u6) = two(micros % 100);
    Ok(TimeText { bytes, len: 27 })
}

fn two(number: u32) -> (u8, u8) {
    (b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn years_that_rfc_3339_cannot_say_are_errors() {
        let text = |seconds| format(seconds, None).map(|text| text.as_str().to_owned()).ok();
        assert_eq!(text(-62_167_219_200).as_deref(), Some("0000-01-01T00:00:00Z"));
        assert_eq!(text(-62_167_219_201), None);
        assert_eq!(text(253_402_300_799).as_deref(), Some("9999-12-31T23:59:59Z"));
        for seconds in [253_402_300_800, i64::MIN, i64::MAX] {
            assert_eq!(text(seconds), None);
        }
    }

    proptest! {
        #[test]
        fn times_are_those_of_a_library(seconds in -62_167_219_200i64..253_402_207_200, micros in 0..1_000_000u32) {
            let time = jiff::Timestamp::new(seconds, 0).unwrap();
            let text = format(seconds, None).unwrap();
            prop_assert_eq!(text.as_str(), time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            let time = time + jiff::SignedDuration::from_micros(micros.into());
            let expected = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            let text = format(seconds, Some(micros)).unwrap();
            prop_assert_eq!(text.as_str(), expected);
        }
    }
}

//! Timestamps of bar files.

use chrono::{DateTime, LocalResult, NaiveDate, NaiveDateTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

/// A timestamp as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stamp {
    /// A local time; the zone has to come from the settings.
    Naive {
        /// Local time; midnight for a date alone.
        local: NaiveDateTime,
        /// Whether only a date was written.
        is_date: bool,
    },
    /// A moment, with the local time that its own offset gives.
    Moment {
        /// Milliseconds since 1970 in UTC.
        utc_ms: i64,
        /// Local time by the written offset; UTC for Unix time.
        local: NaiveDateTime,
    },
}

/// Reads a date, a date-time with or without an offset, or Unix time (s, ms, µs, ns by length).
pub(super) fn parse(text: &str) -> Option<Stamp> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_digits(text);
    }
    if let Some(seconds) = unix_fraction(text) {
        return moment(seconds);
    }
    // The year-first date is 10 characters; slashes are read as dashes.
    let date_text = text.get(..10)?.replace('/', "-");
    let date = NaiveDate::parse_from_str(&date_text, "%Y-%m-%d").ok()?;
    let rest = &text[10..];
    if rest.is_empty() {
        return Some(Stamp::Naive {
            local: date.and_hms_opt(0, 0, 0)?,
            is_date: true,
        });
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset_s) = split_offset(rest)?;
    let time = ["%H:%M:%S%.f", "%H:%M"]
        .iter()
        .find_map(|form| chrono::NaiveTime::parse_from_str(clock.trim_end(), form).ok())?;
    let local = date.and_time(time);
    match offset_s {
        None => Some(Stamp::Naive {
            local,
            is_date: false,
        }),
        Some(seconds) => {
            let utc = local.checked_sub_signed(TimeDelta::seconds(seconds))?;
            Some(Stamp::Moment {
                utc_ms: utc.and_utc().timestamp_millis(),
                local,
            })
        }
    }
}

/// Turns a local time into UTC milliseconds.
///
/// Where the clocks are set back, a time occurs twice: the first is meant unless it would not
/// come after `previous_ms`. A date whose midnight is skipped begins an hour later. `None` for a
/// time that the clocks skip.
pub(super) fn to_utc_ms(
    local: NaiveDateTime,
    is_date: bool,
    zone: Tz,
    previous_ms: Option<i64>,
) -> Option<i64> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(time) => Some(time.timestamp_millis()),
        LocalResult::Ambiguous(first, second) => {
            let first = first.timestamp_millis();
            if previous_ms.is_some_and(|previous| first <= previous) {
                Some(second.timestamp_millis())
            } else {
                Some(first)
            }
        }
        LocalResult::None if is_date => zone
            .from_local_datetime(&(local + TimeDelta::hours(1)))
            .earliest()
            .map(|time| time.timestamp_millis()),
        LocalResult::None => None,
    }
}

/// Local time of a moment in `zone`.
pub(super) fn to_local(utc_ms: i64, zone: Tz) -> Option<NaiveDateTime> {
    let utc: DateTime<Utc> = DateTime::from_timestamp_millis(utc_ms)?;
    Some(utc.with_timezone(&zone).naive_local())
}

/// Reads a compact date (8 digits) or Unix time (10, 13, 16 or 19 digits).
fn parse_digits(text: &str) -> Option<Stamp> {
    let value: i64 = text.parse().ok()?;
    match text.len() {
        8 => Some(Stamp::Naive {
            local: NaiveDate::parse_from_str(text, "%Y%m%d")
                .ok()?
                .and_hms_opt(0, 0, 0)?,
            is_date: true,
        }),
        9 | 10 => moment(value.checked_mul(1_000)?),
        12 | 13 => moment(value),
        15 | 16 => moment(value / 1_000),
        18 | 19 => moment(value / 1_000_000),
        _ => None,
    }
}

/// Reads Unix seconds with a fraction, such as `1577836800.0`, as milliseconds.
fn unix_fraction(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !(9..=10).contains(&seconds.len()) || !digits(seconds) || !digits(fraction) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(seconds.parse::<i64>().ok()? * 1_000 + millis)
}

fn moment(utc_ms: i64) -> Option<Stamp> {
    Some(Stamp::Moment {
        utc_ms,
        local: DateTime::from_timestamp_millis(utc_ms)?.naive_utc(),
    })
}

/// Splits `15:59:00-05:00` into the clock and the offset in seconds; `None` if it is malformed.
fn split_offset(text: &str) -> Option<(&str, Option<i64>)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, Some(0)));
    }
    if let Some(clock) = text.strip_suffix(" UTC") {
        return Some((clock, Some(0)));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, None));
    };
    let (clock, offset) = text.split_at(at);
    let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = match digits.len() {
        2 => (digits.parse().ok()?, 0),
        4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
        _ => return None,
    };
    if hours > 14 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3_600 + minutes * 60;
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    Some((clock, Some(sign * seconds)))
}

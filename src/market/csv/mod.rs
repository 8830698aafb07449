//! Bar files: CSV, plain or gzip, with a report of every fault by line.
//!
//! # Invariants
//! - A file loads whole or not at all: no line is skipped, repaired or reordered.
//! - Every fault carries its 1-based line and a remedy; no input panics.
//! - The digest is of the raw bytes on disk, before decompression.

mod faults;
mod header;
mod time;

pub use faults::{FAULTS_SHOWN_MAX, Fault, FaultKind, Faults};

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use chrono::NaiveDateTime;
use chrono_tz::Tz;

use self::header::{Columns, Role};
use self::time::Stamp;
use super::bars::{Bars, digest_hex};
use super::error::{MarketError, nearest};

/// Relative slack of open and close against low and high, for rounding by price adjustment.
const RANGE_SLACK: f64 = 1e-9;

/// How to read a bar file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CsvOptions {
    /// Value of the bar (`timestamp`, `open`, `high`, `low`, `close`, `volume`) to header name.
    pub columns: BTreeMap<String, String>,
    /// tz database name; needed unless every timestamp carries an offset.
    pub time_zone: Option<String>,
}

/// Loads a bar file.
///
/// Headers match without regard to case; the timestamp may be called `timestamp`, `date`,
/// `datetime` or `time`. Commas, semicolons and tabs separate, by the header line.
///
/// # Errors
/// [`MarketError::Faults`] with every bad line; other variants for what concerns the whole file:
/// it cannot be read or decompressed, is no text, lacks a column, bars or a time zone.
pub fn load(path: &Path, options: &CsvOptions) -> Result<Bars, MarketError> {
    let zone = options.time_zone.as_deref().map(parse_zone).transpose()?;
    let raw = std::fs::read(path).map_err(|source| MarketError::Read {
        path: path.to_owned(),
        source,
    })?;
    let digest = digest_hex(&raw);
    let bytes = decompress(path, raw)?;
    let text = decode(path, &bytes)?;
    let mut bars = parse(path, text, options, zone)?;
    bars.digest = digest;
    Ok(bars)
}

/// Finds a zone of the tz database.
///
/// # Errors
/// [`MarketError::TimeZoneUnknown`] with the nearest name.
pub fn parse_zone(name: &str) -> Result<Tz, MarketError> {
    name.parse().map_err(|_| MarketError::TimeZoneUnknown {
        name: name.to_owned(),
        nearest: nearest(name, chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())),
    })
}

fn decompress(path: &Path, raw: Vec<u8>) -> Result<Vec<u8>, MarketError> {
    let named_gz = path.extension().is_some_and(|ext| ext == "gz");
    if raw.is_empty() || !(named_gz || raw.starts_with(&[0x1f, 0x8b])) {
        return Ok(raw);
    }
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(raw.as_slice())
        .read_to_end(&mut bytes)
        .map_err(|source| MarketError::Gzip {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}

/// Checks that the bytes are text; strips a byte order mark.
fn decode<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, MarketError> {
    let bad_byte = match std::str::from_utf8(bytes) {
        Ok(text) => match bytes.iter().position(|byte| *byte == 0) {
            None => return Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Some(at) => at,
        },
        Err(error) => error.valid_up_to(),
    };
    let n_newlines = bytes[..bad_byte].iter().filter(|b| **b == b'\n').count();
    Err(MarketError::NotText {
        path: path.to_owned(),
        line: n_newlines as u64 + 1,
        byte: bad_byte,
    })
}

fn parse(
    path: &Path,
    text: &str,
    options: &CsvOptions,
    zone: Option<Tz>,
) -> Result<Bars, MarketError> {
    if text.trim().is_empty() {
        return Err(MarketError::Empty {
            path: path.to_owned(),
        });
    }
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(header::delimiter(text))
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| unreadable(path, error))?;
    let columns = header::find(path, names, &options.columns)?;
    let mut rows = Rows::new(zone);
    let mut record = ::csv::StringRecord::new();
    while reader
        .read_record(&mut record)
        .map_err(|error| unreadable(path, error))?
    {
        let line = line_of(text, &record);
        rows.add(line, &record, &columns)
            .map_err(|text| MarketError::TimeZoneMissing {
                path: path.to_owned(),
                line,
                text,
            })?;
    }
    if rows.faults.n_total > 0 {
        return Err(MarketError::Faults {
            path: path.to_owned(),
            faults: rows.faults,
        });
    }
    if rows.bars.is_empty() {
        return Err(MarketError::NoBars {
            path: path.to_owned(),
        });
    }
    Ok(rows.bars)
}

/// Text in memory has no read errors, and a flexible reader of UTF-8 no others.
fn unreadable(path: &Path, error: ::csv::Error) -> MarketError {
    MarketError::Read {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// 1-based line on which the record begins; blank lines before it are part of its position.
fn line_of(text: &str, record: &::csv::StringRecord) -> u64 {
    let Some(position) = record.position() else {
        return 0;
    };
    let start = usize::try_from(position.byte()).map_or(text.len(), |at| at.min(text.len()));
    let blank = text.as_bytes()[start..]
        .iter()
        .take_while(|byte| matches!(byte, b'\n' | b'\r'))
        .filter(|byte| **byte == b'\n')
        .count();
    position.line() + blank as u64
}

/// The last bar with a readable time.
struct Previous {
    utc_ms: i64,
    line: u64,
}

/// Bars and faults so far.
struct Rows {
    zone: Option<Tz>,
    bars: Bars,
    faults: Faults,
    previous: Option<Previous>,
}

impl Rows {
    fn new(zone: Option<Tz>) -> Self {
        Self {
            zone,
            bars: Bars::default(),
            faults: Faults::default(),
            previous: None,
        }
    }

    /// Adds one line. The error is a timestamp that needs a zone which is not set.
    fn add(
        &mut self,
        line: u64,
        record: &::csv::StringRecord,
        columns: &Columns,
    ) -> Result<(), String> {
        let field = |role: Role| record.get(columns.idx(role)).unwrap_or("");
        let time = self.time(line, field(Role::Timestamp))?;
        let open = self.number(line, Role::Open, field(Role::Open));
        let high = self.number(line, Role::High, field(Role::High));
        let low = self.number(line, Role::Low, field(Role::Low));
        let close = self.number(line, Role::Close, field(Role::Close));
        let volume = self.number(line, Role::Volume, field(Role::Volume));
        self.check_range(line, open, high, low, close);
        if let (Some((utc_ms, local)), Some(o), Some(h), Some(l), Some(c), Some(v)) =
            (time, open, high, low, close, volume)
        {
            self.bars.time_utc_ms.push(utc_ms);
            self.bars.local.push(local);
            self.bars.open.push(o);
            self.bars.high.push(h);
            self.bars.low.push(l);
            self.bars.close.push(c);
            self.bars.volume.push(v);
        }
        Ok(())
    }

    fn number(&mut self, line: u64, role: Role, text: &str) -> Option<f64> {
        let name = role.name();
        if text.is_empty() {
            self.faults
                .push(line, FaultKind::MissingField { role: name });
            return None;
        }
        let text_owned = || text.to_owned();
        let fault = match text.parse::<f64>() {
            Err(_) => FaultKind::NotANumber {
                role: name,
                text: text_owned(),
            },
            Ok(value) if !value.is_finite() => FaultKind::NotFinite {
                role: name,
                text: text_owned(),
            },
            Ok(value) if role == Role::Volume && value < 0.0 => FaultKind::VolumeNegative { value },
            Ok(value) if role != Role::Volume && value <= 0.0 => {
                FaultKind::PriceNotPositive { role: name, value }
            }
            Ok(value) => return Some(value),
        };
        self.faults.push(line, fault);
        None
    }

    fn check_range(
        &mut self,
        line: u64,
        open: Option<f64>,
        high: Option<f64>,
        low: Option<f64>,
        close: Option<f64>,
    ) {
        let (Some(high), Some(low)) = (high, low) else {
            return;
        };
        if high < low {
            self.faults
                .push(line, FaultKind::HighBelowLow { high, low });
            return;
        }
        for (role, value) in [("open", open), ("close", close)] {
            let Some(value) = value else { continue };
            if value < low * (1.0 - RANGE_SLACK) || high * (1.0 + RANGE_SLACK) < value {
                self.faults.push(
                    line,
                    FaultKind::OutsideRange {
                        role,
                        value,
                        low,
                        high,
                    },
                );
            }
        }
    }

    fn time(&mut self, line: u64, text: &str) -> Result<Option<(i64, NaiveDateTime)>, String> {
        if text.is_empty() {
            let role = Role::Timestamp.name();
            self.faults.push(line, FaultKind::MissingField { role });
            return Ok(None);
        }
        let previous_ms = self.previous.as_ref().map(|previous| previous.utc_ms);
        let found = match (time::parse(text), self.zone) {
            (None, _) => {
                let text = text.to_owned();
                self.faults.push(line, FaultKind::BadTimestamp { text });
                return Ok(None);
            }
            (Some(Stamp::Naive { .. }), None) => return Err(text.to_owned()),
            (Some(Stamp::Naive { local, is_date }), Some(zone)) => {
                match time::to_utc_ms(local, is_date, zone, previous_ms) {
                    Some(utc_ms) => (utc_ms, local),
                    None => {
                        let (text, zone) = (text.to_owned(), zone.name().to_owned());
                        self.faults
                            .push(line, FaultKind::NoSuchLocalTime { text, zone });
                        return Ok(None);
                    }
                }
            }
            (Some(Stamp::Moment { utc_ms, local }), zone) => (
                utc_ms,
                zone.and_then(|zone| time::to_local(utc_ms, zone))
                    .unwrap_or(local),
            ),
        };
        self.check_order(line, text, found.0);
        Ok(Some(found))
    }

    fn check_order(&mut self, line: u64, text: &str, utc_ms: i64) {
        if let Some(previous) = &self.previous {
            let (text, previous_line) = (text.to_owned(), previous.line);
            if utc_ms == previous.utc_ms {
                self.faults.push(
                    line,
                    FaultKind::Duplicate {
                        text,
                        previous_line,
                    },
                );
                return;
            }
            if utc_ms < previous.utc_ms {
                self.faults.push(
                    line,
                    FaultKind::Unsorted {
                        text,
                        previous_line,
                    },
                );
                return;
            }
        }
        self.previous = Some(Previous { utc_ms, line });
    }
}

#[cfg(test)]
mod tests;

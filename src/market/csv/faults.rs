//! What can be wrong with a line of a bar file.

use std::fmt;

/// Faults that are kept and shown; the rest are counted.
pub const FAULTS_SHOWN_MAX: usize = 20;

/// One fault at one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// 1-based line of the (decompressed) file.
    pub line: u64,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// The line ends before the column, or the field is blank.
    MissingField {
        /// Value of the bar.
        role: &'static str,
    },
    /// The field is no number.
    NotANumber {
        /// Value of the bar.
        role: &'static str,
        /// The field.
        text: String,
    },
    /// The field is NaN or infinite.
    NotFinite {
        /// Value of the bar.
        role: &'static str,
        /// The field.
        text: String,
    },
    /// A price is zero or negative.
    PriceNotPositive {
        /// Value of the bar.
        role: &'static str,
        /// The price.
        value: f64,
    },
    /// The volume is negative.
    VolumeNegative {
        /// The volume.
        value: f64,
    },
    /// The high is below the low.
    HighBelowLow {
        /// High.
        high: f64,
        /// Low.
        low: f64,
    },
    /// Open or close lies outside the bar's range.
    OutsideRange {
        /// `open` or `close`.
        role: &'static str,
        /// Its value.
        value: f64,
        /// Low.
        low: f64,
        /// High.
        high: f64,
    },
    /// The timestamp has no known form.
    BadTimestamp {
        /// The field.
        text: String,
    },
    /// The clocks skip this local time.
    NoSuchLocalTime {
        /// The field.
        text: String,
        /// The zone.
        zone: String,
    },
    /// The bar has the time of an earlier one.
    Duplicate {
        /// The timestamp.
        text: String,
        /// Line of the earlier bar.
        previous_line: u64,
    },
    /// The bar is older than the one before.
    Unsorted {
        /// The timestamp.
        text: String,
        /// Line of the bar before.
        previous_line: u64,
    },
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingField { role } => {
                write!(f, "no {role}; fill the field or remove the line")
            }
            Self::NotANumber { role, text } => write!(
                f,
                "{role} {} is not a number; write it with a decimal point and no separators",
                shorten(text)
            ),
            Self::NotFinite { role, text } => write!(
                f,
                "{role} {} is not finite; correct it or remove the line",
                shorten(text)
            ),
            Self::PriceNotPositive { role, value } => write!(
                f,
                "{role} {value} is not above zero; correct it or remove the line"
            ),
            Self::VolumeNegative { value } => {
                write!(f, "volume {value} is negative; write 0 where none is known")
            }
            Self::HighBelowLow { high, low } => write!(
                f,
                "high {high} is below low {low}; correct them (are the columns swapped?)"
            ),
            Self::OutsideRange {
                role,
                value,
                low,
                high,
            } => write!(
                f,
                "{role} {value} is outside low {low} to high {high}; correct the bar or remove it"
            ),
            Self::BadTimestamp { text } => write!(
                f,
                "timestamp {} is not understood; write 2020-01-31, 2020-01-31 15:59:00, \
                 2020-01-31T15:59:00-05:00 or Unix seconds",
                shorten(text)
            ),
            Self::NoSuchLocalTime { text, zone } => write!(
                f,
                "timestamp {} does not exist in {zone}, the clocks skip it; check `time_zone`",
                shorten(text)
            ),
            Self::Duplicate {
                text,
                previous_line,
            } => write!(
                f,
                "timestamp {} repeats that of line {previous_line}; keep one of the two",
                shorten(text)
            ),
            Self::Unsorted {
                text,
                previous_line,
            } => write!(
                f,
                "timestamp {} is before that of line {previous_line}; sort the file, oldest first",
                shorten(text)
            ),
        }
    }
}

/// Every fault of a file: the first ones in full, all of them counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// The first [`FAULTS_SHOWN_MAX`], in line order.
    pub shown: Vec<Fault>,
    /// Number of all faults.
    pub n_total: usize,
}

impl Faults {
    pub(super) fn push(&mut self, line: u64, kind: FaultKind) {
        self.n_total += 1;
        if self.shown.len() < FAULTS_SHOWN_MAX {
            self.shown.push(Fault { line, kind });
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.n_total == 1 { "" } else { "s" };
        write!(f, "{} fault{plural}", self.n_total)?;
        for fault in &self.shown {
            write!(f, "\n  line {}: {}", fault.line, fault.kind)?;
        }
        if self.shown.len() < self.n_total {
            write!(f, "\n  and {} more", self.n_total - self.shown.len())?;
        }
        Ok(())
    }
}

/// Quotes a field, escaped and cut to a length that a terminal can show.
fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    if text.chars().count() <= CHARS_MAX {
        format!("{text:?}")
    } else {
        let head: String = text.chars().take(CHARS_MAX).collect();
        format!("{:?}…", head)
    }
}

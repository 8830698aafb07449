//! What can be wrong with market data, a calendar or a split; each error says how to mend it.

use std::path::PathBuf;

use super::csv::Faults;

/// A fault of the user's data or settings.
#[derive(Debug, thiserror::Error)]
pub enum MarketError {
    /// The file cannot be read.
    #[error("{}: cannot be read; check that the path is relative to the sweep file and that the file exists", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is named or starts like gzip, but does not decompress.
    #[error("{}: not a complete gzip file; download or compress it again", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file has no byte, or only white space.
    #[error("{}: the file is empty; it needs a header line and one line per bar", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file has a header but no bar.
    #[error("{}: a header but no bars; add one line per bar", path.display())]
    NoBars {
        /// The file.
        path: PathBuf,
    },
    /// The file is not UTF-8 text.
    #[error("{}: line {line}: not UTF-8 text (byte {byte}); export it as CSV in UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// 1-based line of the first bad byte.
        line: u64,
        /// 0-based offset of the first bad byte.
        byte: usize,
    },
    /// A column that bars need is not in the header.
    #[error("{}: line 1: no column \"{wanted}\", which would be the {role}; {}the header has: {}; name it with `columns = {{ {role} = \"…\" }}`", path.display(), did_you_mean(nearest.as_deref()), headers.join(", "))]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// Which value of the bar: `close`, for instance.
        role: &'static str,
        /// Header name that was looked for.
        wanted: String,
        /// Nearest header name, if one is near.
        nearest: Option<String>,
        /// All header names.
        headers: Vec<String>,
    },
    /// Two columns carry the name of one value.
    #[error("{}: line 1: columns {first} and {second} are both named \"{name}\"; rename one", path.display())]
    RepeatedColumn {
        /// The file.
        path: PathBuf,
        /// Header name.
        name: String,
        /// 1-based position of the first.
        first: usize,
        /// 1-based position of the second.
        second: usize,
    },
    /// `columns` maps something that bars do not have.
    #[error("columns: \"{key}\" is no value of a bar; {}known are timestamp, open, high, low, close, volume", did_you_mean(nearest.as_deref()))]
    UnknownColumnKey {
        /// The key.
        key: String,
        /// Nearest known key.
        nearest: Option<String>,
    },
    /// A timestamp carries no offset, and no zone is set.
    #[error("{}: line {line}: timestamp \"{text}\" carries no UTC offset; set `time_zone`, for instance \"America/New_York\"", path.display())]
    TimeZoneMissing {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: u64,
        /// The timestamp.
        text: String,
    },
    /// The zone is not in the tz database.
    #[error("time_zone: \"{name}\" is not in the tz database; {}use a name such as \"America/New_York\" or \"UTC\"", did_you_mean(nearest.as_deref()))]
    TimeZoneUnknown {
        /// The name given.
        name: String,
        /// Nearest known zone.
        nearest: Option<String>,
    },
    /// Lines of the file are wrong.
    #[error("{}: {faults}", path.display())]
    Faults {
        /// The file.
        path: PathBuf,
        /// Every fault, up to a cap, and their number.
        faults: Faults,
    },
    /// The bar length does not read as one.
    #[error(
        "bar: \"{text}\" is no bar length; use \"1d\", or minutes or hours such as \"1m\", \"5m\", \"1h\""
    )]
    BarLengthInvalid {
        /// The text.
        text: String,
    },
    /// Bars lie closer together than their declared length.
    #[error(
        "bar {bar_idx} ({at}) begins less than {bar} after the one before; set `bar` to the file's true bar length"
    )]
    BarLengthMismatch {
        /// 0-based bar.
        bar_idx: usize,
        /// Its local time.
        at: String,
        /// Declared length.
        bar: String,
    },
    /// Bars lie outside the calendar's sessions.
    #[error(
        "{n_outside} bars lie outside the sessions of calendar us_equity (09:30 to 16:00 in New York, Monday to Friday), the first is bar {bar_idx} ({at} exchange time); remove them from the file, or use calendar custom"
    )]
    OutsideSession {
        /// Number of such bars.
        n_outside: usize,
        /// 0-based index of the first.
        bar_idx: usize,
        /// Its local time.
        at: String,
    },
    /// `bars_per_year` is no positive number.
    #[error(
        "calendar custom: bars_per_year is {value}; it must be a positive number, for instance 252"
    )]
    BarsPerYearInvalid {
        /// The value.
        value: f64,
    },
    /// A setting of the synthetic market is out of range.
    #[error("synthetic market: {setting} is {value}; it must be {expected}")]
    SyntheticInvalid {
        /// Setting's name.
        setting: &'static str,
        /// Given value.
        value: f64,
        /// What would do.
        expected: &'static str,
    },
    /// A split setting is out of range.
    #[error("split: {setting} is {value}; it must be {expected}")]
    SplitInvalid {
        /// Setting's name.
        setting: &'static str,
        /// Given value.
        value: usize,
        /// What would do.
        expected: &'static str,
    },
    /// The file is too short for the split.
    #[error(
        "the split needs {needed} bars, the file has {found}: {warmup} warm-up + {train} training + {purge_total} purged + {validation_total} validation ({folds} × {validation}) + {tail} at the end ({tail_what}); use more bars, fewer folds or shorter blocks"
    )]
    TooFewBars {
        /// Bars that the split needs at the least.
        needed: usize,
        /// Bars in the file.
        found: usize,
        /// Bars lost to feature warm-up.
        warmup: usize,
        /// Smallest training block.
        train: usize,
        /// Bars between the blocks.
        purge_total: usize,
        /// Folds.
        folds: usize,
        /// Validation bars of a fold.
        validation: usize,
        /// Validation bars in all.
        validation_total: usize,
        /// Bars after the last validation block.
        tail: usize,
        /// What the tail is.
        tail_what: &'static str,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("did you mean \"{name}\"? "))
}

/// Nearest of `known` to `text` by edit distance, if near enough to be a slip.
pub(crate) fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = text.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

//! Sections `[study]` and `[objective]`.

use super::cursor::{Item, Table};
use super::diagnostic::Report;
use crate::study::{Direction, Metric, Objective};
use std::path::Path;

/// Placeholder at the end of a study's name for the day of the run.
const DATE: &str = "{date}";

/// Longest name of a study, in characters.
const NAME_CHARS_MAX: usize = 100;

/// What names are made of.
const NAME_CHARACTERS: &str = "letters, digits, `_`, `.` and `-`";

/// `objective.min_trades` where the sweep says nothing.
const MIN_TRADES: u64 = 10;

/// What `[study]` says.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) series: Option<String>,
}

/// Puts a date in the place of `{date}`.
///
/// - `date`: as it shall appear, for example `2026-11-30`.
pub fn expand_date(name: &str, date: &str) -> String {
    name.replace(DATE, date)
}

pub(super) fn read_study(
    mut table: Table<'_>,
    path: &Path,
    report: &mut Report,
) -> Option<Identity> {
    let name = table.required("name", report);
    let name = name.and_then(|item| read_name(&item, path, report));
    let seed = table.required("seed", report);
    let seed = seed.and_then(|item| item.int_in(0..=i64::MAX, report));
    let series = table.or("series", None, |item| {
        let text = item.text(report)?;
        has_name_characters(text, item, report).then(|| Some(text.to_owned()))
    });
    table.finish(report);
    Some(Identity {
        name: name?,
        seed: u64::try_from(seed?).expect("the bounds exclude negative seeds"),
        series: series?,
    })
}

fn read_name(item: &Item<'_>, path: &Path, report: &mut Report) -> Option<String> {
    let name = item.text(report)?;
    let dateless = name.strip_suffix(DATE).unwrap_or(name);
    if dateless.contains(DATE) {
        let title = "`{date}` may only stand at the end of `study.name`";
        let help = format!("write \"{}{DATE}\"", dateless.replace(DATE, ""));
        report.error(&item.span(), title, "not at the end", help);
        return None;
    }
    if !has_name_characters(dateless, item, report) {
        return None;
    }
    let base = if dateless.len() == name.len() {
        name
    } else {
        dateless.trim_end_matches(['_', '-', '.'])
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    match stem {
        Some(stem) if stem != base => {
            let title = "`study.name` differs from the name of the file";
            let label = format!("the file's stem is `{stem}`");
            let help = format!(
                "write name = \"{stem}{}\", or rename the file to `{base}.toml`",
                &name[base.len()..]
            );
            report.error(&item.span(), title, label, help);
            None
        }
        Some(_) | None => Some(name.to_owned()),
    }
}

fn has_name_characters(text: &str, item: &Item<'_>, report: &mut Report) -> bool {
    let Some(label) = name_fault(text) else {
        return true;
    };
    let title = format!("`{}` is not a valid name", item.name);
    let help = format!("use {NAME_CHARACTERS}");
    report.error(&item.span(), title, label, help);
    false
}

fn name_fault(text: &str) -> Option<String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if text.is_empty() {
        Some("empty".to_owned())
    } else if text.chars().count() > NAME_CHARS_MAX {
        Some(format!("longer than {NAME_CHARS_MAX} characters"))
    } else {
        let illegal = text.chars().find(|c| !is_legal(*c));
        illegal.map(|c| format!("{c:?} is not allowed"))
    }
}

/// Checks a study's name that does not come from a sweep file; it may end in `{date}`.
///
/// # Errors
/// What is wrong with it, and what a name may hold.
pub fn check_name(name: &str) -> Result<(), String> {
    match name_fault(name.strip_suffix(DATE).unwrap_or(name)) {
        Some(fault) => Err(format!(
            "{fault}; use {NAME_CHARACTERS}, and {DATE} at the end"
        )),
        None => Ok(()),
    }
}

pub(super) fn read_objective(item: Option<Item<'_>>, report: &mut Report) -> Option<Objective> {
    let Some(item) = item else {
        return Some(Objective {
            metric: Metric::ValidationSharpeLower,
            direction: Direction::Maximize,
            min_trades: MIN_TRADES,
        });
    };
    if item.is_array() {
        let title = "several objectives are not yet supported";
        let help = "write one `[objective]`";
        report.error(&item.key_span, title, "not yet supported", help);
        return None;
    }
    let mut table = item.table(report)?;
    let metrics = Metric::ALL.map(|metric| (metric.as_str(), metric));
    let metric = table.or("metric", Metric::ValidationSharpeLower, |item| {
        item.pick("metric", &metrics, &[], report)
    });
    let directions = [
        ("maximize", Direction::Maximize),
        ("minimize", Direction::Minimize),
    ];
    let direction = table.or("direction", Direction::Maximize, |item| {
        item.pick("direction", &directions, &[], report)
    });
    let min_trades = table.or("min_trades", MIN_TRADES, |item| {
        item.count(0..=u32::MAX, report).map(u64::from)
    });
    table.finish(report);
    Some(Objective {
        metric: metric?,
        direction: direction?,
        min_trades: min_trades?,
    })
}

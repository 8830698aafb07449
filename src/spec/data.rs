//! Sections `[data]`, `[split]` and `[market]`.

use super::cursor::{Item, Table};
use super::diagnostic::{Report, nearest};
use super::types::{
    BarLength, Calendar, CostSpec, DataSource, DataSpec, MarketSpec, SplitSpec, TrainWindow,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Columns of a bar that a file may name differently.
const COLUMNS: [&str; 6] = ["timestamp", "open", "high", "low", "close", "volume"];

/// Sources that later work adds.
const SOURCES_LATER: [&str; 2] = ["parquet", "dbn"];

/// Calendars that later work adds.
const CALENDARS_LATER: [&str; 3] = ["us_futures", "crypto", "fx"];

/// Autocorrelation of the synthetic market where the sweep says nothing.
const RHO: f64 = 0.2;

/// Starting equity where the sweep says nothing.
const CAPITAL: f64 = 1_000_000.0;

/// Costs where the sweep says nothing: fee and half-spread in basis points, impact factor.
const COST: [f64; 3] = [0.5, 0.5, 0.1];

/// Basis points of a whole.
const BP_MAX: f64 = 10_000.0;

#[derive(Clone, Copy, PartialEq)]
enum SourceKind {
    Csv,
    Synthetic,
}

pub(super) fn read_data(mut table: Table<'_>, report: &mut Report) -> Option<DataSpec> {
    let kinds = [
        ("csv", SourceKind::Csv),
        ("synthetic", SourceKind::Synthetic),
    ];
    let kind = table.required("source", report);
    let kind = kind.and_then(|item| item.pick("data source", &kinds, &SOURCES_LATER, report));
    let source = match kind {
        Some(SourceKind::Csv) => read_csv(&mut table, report),
        Some(SourceKind::Synthetic) => read_synthetic(&mut table, report),
        None => None,
    };
    refuse_other_source(&mut table, kind, report);
    let lengths = BarLength::ALL.map(|bar| (bar.as_str(), bar));
    let bar = table.required("bar", report);
    let bar = bar.and_then(|item| item.pick("bar length", &lengths, &[], report));
    let time_zone = table.or("time_zone", None, |item| {
        read_time_zone(item, report).map(Some)
    });
    let calendar = table.or("calendar", Calendar::UsEquity, |item| {
        read_calendar(item, report)
    });
    let features = table.or("features", (), |item| read_features(item, report));
    if kind.is_some() {
        table.finish(report);
    }
    features?;
    Some(DataSpec {
        source: source?,
        bar: bar?,
        time_zone: time_zone?,
        calendar: calendar?,
    })
}

fn read_csv(table: &mut Table<'_>, report: &mut Report) -> Option<DataSource> {
    let path = table.required("path", report);
    let path = path.and_then(|item| {
        let path = item.text(report)?;
        if path.is_empty() {
            let help = "name a CSV file, relative to this one";
            report.error(&item.span(), "`data.path` is empty", "no path", help);
            return None;
        }
        Some(path.to_owned())
    });
    let columns = table.or("columns", BTreeMap::new(), |item| {
        read_columns(item, report)
    });
    Some(DataSource::Csv {
        path: path?,
        columns: columns?,
    })
}

fn read_columns(item: &Item<'_>, report: &mut Report) -> Option<BTreeMap<String, String>> {
    let mut table = item.table(report)?;
    let mut columns = BTreeMap::new();
    let mut valid = true;
    for column in COLUMNS {
        let Some(item) = table.get(column) else {
            continue;
        };
        let Some(name) = item.text(report) else {
            valid = false;
            continue;
        };
        let taken = columns.iter().find(|(_, other)| *other == name);
        if let Some((other, _)) = taken {
            let title = format!("column `{name}` stands for two of ours");
            let label = format!("already `{other}`");
            report.error(&item.span(), title, label, "map each column once");
            valid = false;
        }
        columns.insert(column.to_owned(), name.to_owned());
    }
    table.finish(report);
    valid.then_some(columns)
}

fn read_synthetic(table: &mut Table<'_>, report: &mut Report) -> Option<DataSource> {
    let bars = table.required("bars", report);
    let bars = bars.and_then(|item| item.count(100..=10_000_000, report));
    let seed = table.or("seed", 0, |item| item.int_in(0..=i64::MAX, report));
    // At ±1 the returns would not be stationary.
    let rho = table.or("rho", RHO, |item| item.float_in(-0.99..=0.99, report));
    let shuffled = table.or("shuffled", false, |item| item.boolean(report));
    Some(DataSource::Synthetic {
        bars: bars?,
        seed: u64::try_from(seed?).expect("the bounds exclude negative seeds"),
        rho: rho?,
        shuffled: shuffled?,
    })
}

/// Notes keys that belong to the source that was not chosen.
fn refuse_other_source(table: &mut Table<'_>, kind: Option<SourceKind>, report: &mut Report) {
    let (name, other, keys): (_, _, &[&'static str]) = match kind {
        Some(SourceKind::Csv) => ("csv", "synthetic", &["bars", "seed", "rho", "shuffled"]),
        Some(SourceKind::Synthetic) => ("synthetic", "csv", &["path", "columns", "time_zone"]),
        None => return,
    };
    for key in keys {
        if let Some(item) = table.get_if_present(key) {
            let title = format!("`data.{key}` does nothing where the source is \"{name}\"");
            let label = format!("only for source \"{other}\"");
            report.error(&item.key_span, title, label, format!("remove `{key}`"));
        }
    }
}

fn read_time_zone(item: &Item<'_>, report: &mut Report) -> Option<String> {
    let name = item.text(report)?;
    if name.parse::<chrono_tz::Tz>().is_ok() {
        return Some(name.to_owned());
    }
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let help = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "use a name such as `America/New_York` or `UTC`".to_owned(),
    };
    let title = format!("unknown time zone `{name}`");
    report.error(&item.span(), title, "not in the IANA database", help);
    None
}

fn read_calendar(item: &Item<'_>, report: &mut Report) -> Option<Calendar> {
    if !item.is_table() {
        let calendars = [("us_equity", Some(Calendar::UsEquity)), ("custom", None)];
        let picked = item.pick("calendar", &calendars, &CALENDARS_LATER, report)?;
        if picked.is_none() {
            let title = "`data.calendar` \"custom\" needs its bars a year";
            let help = "write calendar = { custom = { bars_per_year = 252 } }";
            report.error(&item.span(), title, "bars a year unknown", help);
        }
        return picked;
    }
    let mut table = item.table(report)?;
    let custom = table.required("custom", report);
    table.finish(report);
    let mut custom = custom?.table(report)?;
    let bars_per_year = custom.required("bars_per_year", report);
    // The upper end is a bar a second.
    let bars_per_year = bars_per_year.and_then(|item| item.float_in(1.0..=31_622_400.0, report));
    custom.finish(report);
    Some(Calendar::Custom {
        bars_per_year: bars_per_year?,
    })
}

fn read_features(item: &Item<'_>, report: &mut Report) -> Option<()> {
    let features = item.list(report)?;
    let mut n_builtin = 0;
    let mut valid = true;
    for feature in &features {
        match feature.text(report) {
            Some("builtin") => n_builtin += 1,
            Some(name) => {
                let title = format!("own feature column `{name}` is not yet supported");
                let help = "supported: features = [\"builtin\"]";
                report.error(&feature.span(), title, "not yet supported", help);
                valid = false;
            }
            None => valid = false,
        }
    }
    if valid && n_builtin != 1 {
        let title = "`data.features` must be [\"builtin\"]";
        let help = "write features = [\"builtin\"]";
        report.error(&item.span(), title, "not that list", help);
        valid = false;
    }
    valid.then_some(())
}

pub(super) fn read_split(mut table: Table<'_>, report: &mut Report) -> Option<SplitSpec> {
    let kinds = [("walk_forward", ())];
    let kind = table.or("kind", (), |item| {
        item.pick("kind of split", &kinds, &["cpcv"], report)
    });
    let folds = table.required("folds", report);
    let folds = folds.and_then(|item| item.count(1..=64, report));
    let window = read_window(&mut table, report);
    let validation_bars = table.required("validation_bars", report);
    let validation_bars = validation_bars.and_then(|item| item.count(2..=10_000_000, report));
    let holdout_bars = table.required("holdout_bars", report);
    let holdout_bars = holdout_bars.and_then(|item| item.count(2..=10_000_000, report));
    let purge_bars = table.or("purge_bars", None, |item| {
        auto_or_count(item, 2..=1_000_000, report)
    });
    table.finish(report);
    kind?;
    Some(SplitSpec {
        folds: folds?,
        window: window?,
        validation_bars: validation_bars?,
        holdout_bars: holdout_bars?,
        purge_bars: purge_bars?,
    })
}

fn read_window(table: &mut Table<'_>, report: &mut Report) -> Option<TrainWindow> {
    let windows = [("expanding", false), ("rolling", true)];
    let is_rolling = table.or("window", false, |item| {
        item.pick("window", &windows, &[], report)
    })?;
    if is_rolling {
        let train_bars = table.required("train_bars", report)?;
        let train_bars = train_bars.count(2..=10_000_000, report)?;
        return Some(TrainWindow::Rolling { train_bars });
    }
    if let Some(item) = table.get("train_bars") {
        let title = "`split.train_bars` does nothing where the window is expanding";
        let help = "remove it, or write window = \"rolling\"";
        report.error(&item.key_span, title, "only for rolling windows", help);
        return None;
    }
    Some(TrainWindow::Expanding)
}

/// Reads `"auto"` (`None`) or a count within bounds.
pub(super) fn auto_or_count(
    item: &Item<'_>,
    bounds: RangeInclusive<u32>,
    report: &mut Report,
) -> Option<Option<u32>> {
    match item.as_text() {
        Some("auto") => Some(None),
        Some(_) => {
            item.wrong_type(report, "\"auto\" or an integer", "write \"auto\"");
            None
        }
        None => item.count(bounds, report).map(Some),
    }
}

/// Reads `[market]`.
///
/// - `bar`: length of a bar, if it is known; daily positions are never flattened.
pub(super) fn read_market(
    mut table: Table<'_>,
    bar: Option<BarLength>,
    report: &mut Report,
) -> Option<MarketSpec> {
    let is_intraday = bar.is_none_or(BarLength::is_intraday);
    let flatten = table.or("flatten", is_intraday, |item| {
        if item.as_text() == Some("auto") {
            return Some(is_intraday);
        }
        if item.as_text().is_some() {
            item.wrong_type(report, "\"auto\", `true` or `false`", "write \"auto\"");
            return None;
        }
        let flatten = item.boolean(report)?;
        if flatten && !is_intraday {
            let title = "`market.flatten` does nothing with daily bars";
            let help = "write flatten = \"auto\"";
            report.error(&item.span(), title, "daily bars are never flattened", help);
            return None;
        }
        Some(flatten)
    });
    let capital = table.or("capital", CAPITAL, |item| item.float_in(1.0..=1e15, report));
    let [fee_bp, half_spread_bp, impact] = COST;
    let default = CostSpec {
        fee_bp,
        maker_fee_bp: fee_bp,
        half_spread_bp,
        impact,
    };
    let cost = table.or("cost", default, |item| read_cost(item, report));
    table.finish(report);
    Some(MarketSpec {
        flatten: flatten?,
        capital: capital?,
        cost: cost?,
    })
}

fn read_cost(item: &Item<'_>, report: &mut Report) -> Option<CostSpec> {
    let mut table = item.table(report)?;
    let [fee_bp, half_spread_bp, impact] = COST;
    let fee_bp = table.or("fee_bp", fee_bp, |item| item.float_in(0.0..=BP_MAX, report));
    let maker_fee_bp = table.or("maker_fee_bp", fee_bp.unwrap_or(0.0), |item| {
        item.float_in(0.0..=BP_MAX, report)
    });
    let half_spread_bp = table.or("half_spread_bp", half_spread_bp, |item| {
        item.float_in(0.0..=BP_MAX, report)
    });
    let impact = table.or("impact", impact, |item| {
        item.float_in(0.0..=1_000.0, report)
    });
    table.finish(report);
    Some(CostSpec {
        fee_bp: fee_bp?,
        maker_fee_bp: maker_fee_bp?,
        half_spread_bp: half_spread_bp?,
        impact: impact?,
    })
}

//! Ranges of the space and their conditions as written.

use super::cursor::Item;
use super::diagnostic::{Report, Span};
use super::params::{any_of, is_legal, typed};
use crate::study::{Domain, ParamSchema, Scale, Value, When};

/// Most cells of a stepped float range; beyond, neighbouring cells could not be told apart.
const CELLS_MAX: f64 = 1e9;

/// Reads `{ float = […], … }`, `{ int = […], … }` or `{ choice = […], … }` with its condition.
pub(super) fn read_range(
    item: &Item<'_>,
    schema: &ParamSchema,
    report: &mut Report,
) -> Option<(Domain, Option<(When, Span)>)> {
    if !item.is_table() {
        let help = "write for example { float = [1e-5, 1e-3], scale = \"log\" }";
        item.wrong_type(report, "a range", help);
        return None;
    }
    let mut table = item.table(report)?;
    let forms = ["float", "int", "choice"].map(|form| (form, table.get(form)));
    let scale = table.get("scale");
    let step = table.get("step");
    let when = table.get("when");
    let when_span = when.as_ref().map(Item::span);
    let when = match when {
        Some(item) => read_when(&item, report).map(Some),
        None => Some(None),
    };
    table.finish(report);
    let mut given = forms
        .into_iter()
        .filter_map(|(form, item)| Some((form, item?)));
    let (Some((form, values)), None) = (given.next(), given.next()) else {
        let title = format!(
            "`{}` needs exactly one of `float`, `int` and `choice`",
            item.name
        );
        let help = format!("write {{ {} }}", example(schema));
        report.error(&item.span(), title, "not one range", help);
        return None;
    };
    let values = values.named(schema.name);
    let domain = match (form, &schema.legal) {
        ("choice", _) => {
            for extra in [&scale, &step].into_iter().flatten() {
                let title = format!("`{}` does nothing beside `choice`", extra.name);
                report.error(&extra.key_span, title, "only for ranges", "remove it");
            }
            read_choice(&values, schema, report)
        }
        ("float", Domain::Float { .. }) => read_float(&values, scale, step, schema, report),
        ("int", Domain::Int { .. }) => read_int(&values, scale, step, schema, report),
        _ => {
            let title = format!("`{form}` does not suit `{}`", schema.name);
            let label = format!("its value must be {}", any_of(&schema.legal));
            let help = format!("write {{ {} }}", example(schema));
            report.error(&values.key_span, title, label, help);
            None
        }
    };
    Some((domain?, when?.zip(when_span)))
}

fn example(schema: &ParamSchema) -> &'static str {
    match schema.legal {
        Domain::Float { .. } => "float = [low, high]",
        Domain::Int { .. } => "int = [low, high]",
        Domain::Choice(_) => "choice = [a, b]",
    }
}

fn read_choice(item: &Item<'_>, schema: &ParamSchema, report: &mut Report) -> Option<Domain> {
    let items = item.list(report)?;
    if items.is_empty() {
        let title = format!("the choices of `{}` are empty", item.name);
        report.error(&item.span(), title, "no choice", "list at least one value");
        return None;
    }
    let mut values = Vec::new();
    let mut valid = true;
    for item in &items {
        let value = typed(item, &schema.legal, report);
        let value = value.filter(|value| is_legal(item, value, schema, report));
        let Some(value) = value else {
            valid = false;
            continue;
        };
        if values.contains(&value) {
            let title = format!("`{}` lists {value} twice", item.name);
            report.error(&item.span(), title, "already listed", "remove it");
            valid = false;
        }
        values.push(value);
    }
    valid.then_some(Domain::Choice(values))
}

fn read_float(
    item: &Item<'_>,
    scale: Option<Item<'_>>,
    step: Option<Item<'_>>,
    schema: &ParamSchema,
    report: &mut Report,
) -> Option<Domain> {
    let step = match step {
        Some(step) => step.float(report).map(|value| Some((value, step))),
        None => Some(None),
    };
    let scale = read_scale(
        scale,
        &[Scale::Linear, Scale::Log, Scale::LogOneMinus],
        report,
    );
    let [low, high] = read_ends(item, schema, report)?;
    let (Value::Float(low), Value::Float(high)) = (&low, &high) else {
        return None;
    };
    let (low, high) = (*low, *high);
    let scale = scale?;
    if low >= high {
        note_empty(
            item,
            low > high,
            &format!("[{high:?}, {low:?}]"),
            schema,
            report,
        );
        return None;
    }
    let misfit = match scale {
        Scale::Linear => None,
        Scale::Log if low <= 0.0 => Some(("log", "low end above 0")),
        Scale::LogOneMinus if high >= 1.0 => Some(("log_one_minus", "high end below 1")),
        Scale::Log | Scale::LogOneMinus => None,
    };
    if let Some((scale, need)) = misfit {
        note_misfit(item, scale, need, report);
        return None;
    }
    let step = match step? {
        None => None,
        Some((step, place)) => {
            let n_cells = ((high - low) / step).round();
            let is_multiple = ((high - low) / step - n_cells).abs() <= 1e-9 * n_cells.max(1.0);
            if !(step > 0.0 && (1.0..=CELLS_MAX).contains(&n_cells)) {
                let title = format!("`{}` must lie between 0 and the width", place.name);
                let label = format!("the range is {:?} wide", high - low);
                report.error(&place.span(), title, label, "choose another step");
                return None;
            }
            if !is_multiple {
                let near = low + n_cells * step;
                note_uneven(item, &place, &format!("{near:?}"), report);
                return None;
            }
            Some(step)
        }
    };
    Some(Domain::Float {
        low,
        high,
        scale,
        step,
    })
}

fn read_int(
    item: &Item<'_>,
    scale: Option<Item<'_>>,
    step: Option<Item<'_>>,
    schema: &ParamSchema,
    report: &mut Report,
) -> Option<Domain> {
    let step = match step {
        Some(step) => step.int(report).map(|value| Some((value, step))),
        None => Some(None),
    };
    let scale = read_scale(scale, &[Scale::Linear, Scale::Log], report);
    let [low, high] = read_ends(item, schema, report)?;
    let (low, high) = (low.as_int()?, high.as_int()?);
    let scale = scale?;
    if low >= high {
        note_empty(
            item,
            low > high,
            &format!("[{high}, {low}]"),
            schema,
            report,
        );
        return None;
    }
    if scale == Scale::Log && low < 1 {
        note_misfit(item, "log", "low end of at least 1", report);
        return None;
    }
    let width = i128::from(high) - i128::from(low);
    let step = match step? {
        None => None,
        Some((step, place)) => {
            if step < 1 || i128::from(step) > width {
                let title = format!("`{}` must lie between 0 and the width", place.name);
                let label = format!("the range is {width} wide");
                report.error(&place.span(), title, label, "choose another step");
                return None;
            }
            if width % i128::from(step) != 0 {
                let near = i128::from(low) + width / i128::from(step) * i128::from(step);
                note_uneven(item, &place, &near.to_string(), report);
                return None;
            }
            Some(step)
        }
    };
    let grid = match schema.legal {
        Domain::Int { step, .. } => step.unwrap_or(1),
        Domain::Float { .. } | Domain::Choice(_) => 1,
    };
    if step.unwrap_or(1) % grid != 0 {
        let title = format!("`{}` goes in steps of {grid}", schema.name);
        let help = format!("write step = {grid}, or a multiple of it");
        report.error(&item.span(), title, "leaves that grid", help);
        return None;
    }
    Some(Domain::Int {
        low,
        high,
        scale,
        step,
    })
}

/// Reads `[low, high]`, both legal.
fn read_ends(item: &Item<'_>, schema: &ParamSchema, report: &mut Report) -> Option<[Value; 2]> {
    let items = item.list(report)?;
    let [low, high] = items.as_slice() else {
        let title = format!("the range of `{}` must be [low, high]", item.name);
        let label = format!("{} values", items.len());
        report.error(&item.span(), title, label, "write the two ends");
        return None;
    };
    let mut end = |item: &Item<'_>| {
        let value = typed(item, &schema.legal, report)?;
        is_legal(item, &value, schema, report).then_some(value)
    };
    let (low, high) = (end(low), end(high));
    Some([low?, high?])
}

fn read_scale(item: Option<Item<'_>>, scales: &[Scale], report: &mut Report) -> Option<Scale> {
    let Some(item) = item else {
        return Some(Scale::Linear);
    };
    let named: Vec<_> = scales
        .iter()
        .map(|scale| (scale.as_str(), *scale))
        .collect();
    item.pick("scale", &named, &[], report)
}

fn note_empty(
    item: &Item<'_>,
    is_inverted: bool,
    swapped: &str,
    schema: &ParamSchema,
    report: &mut Report,
) {
    let section = schema.name.split('.').next().unwrap_or_default();
    let (title, label, help) = if is_inverted {
        let help = format!("write {swapped}");
        ("is inverted", "the low end is above the high end", help)
    } else {
        let help = format!("fix it in `[{section}]` instead");
        ("holds a single value", "both ends are equal", help)
    };
    let title = format!("the range of `{}` {title}", item.name);
    report.error(&item.span(), title, label, help);
}

fn note_misfit(item: &Item<'_>, scale: &str, need: &str, report: &mut Report) {
    let title = format!("scale \"{scale}\" needs a {need}");
    let help = "change the range, or write scale = \"linear\"";
    report.error(&item.span(), title, "outside the scale", help);
}

fn note_uneven(item: &Item<'_>, step: &Item<'_>, near: &str, report: &mut Report) {
    let title = format!("the width of `{}` is no multiple of its step", item.name);
    let help = format!("the nearest high end is {near}");
    report
        .error(&step.span(), title, "does not divide the width", help)
        .related = Some((item.span(), "of this range".to_owned()));
}

/// Reads `when = { "model.iqn" = [true] }`; values are judged once the whole space is known.
fn read_when(item: &Item<'_>, report: &mut Report) -> Option<When> {
    let table = item.table(report)?;
    let mut entries = table.items();
    let (Some((name, values)), None) = (entries.next(), entries.next()) else {
        let title = format!("`{}` must name one controlling parameter", item.name);
        let help = "write when = { \"model.x\" = [true] }";
        report.error(&item.span(), title, "not one parameter", help);
        return None;
    };
    let items = values.list(report)?;
    if items.is_empty() {
        let title = format!("`{}` lists no value", values.name);
        let help = "list the values that activate the parameter";
        report.error(&values.span(), title, "never holds", help);
        return None;
    }
    let values: Vec<_> = items.iter().map(|item| item.scalar(report)).collect();
    Some(When {
        name: name.to_owned(),
        values: values.into_iter().collect::<Option<_>>()?,
    })
}

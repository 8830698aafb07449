//! Sections `[model]` and `[train]`: the kind, the preset, and every fixed parameter.

use super::cursor::{Item, Table};
use super::diagnostic::{Report, Span, nearest, quoted};
use crate::study::{Domain, ModelSchema, ParamSchema, Params, Value};
use std::collections::BTreeMap;

/// Model kinds that later work adds.
const KINDS_LATER: [&str; 10] = [
    "ppo",
    "tft",
    "mamba2",
    "cfc",
    "kan",
    "xlstm",
    "diffusion",
    "tggn",
    "tlob",
    "ensemble",
];

/// The model's schema and what the sweep fixes of it.
pub(super) struct Fixed<'c> {
    pub(super) schema: &'c ModelSchema,
    explicit: BTreeMap<&'static str, (Value, Span)>,
    preset: Params,
}

impl Fixed<'_> {
    /// Returns a parameter's value where it is not searched: fixed, of the preset, or default.
    pub(super) fn value(&self, param: &ParamSchema) -> Value {
        let explicit = self.explicit.get(param.name).map(|(value, _)| value);
        let value = explicit.or_else(|| self.preset.get(param.name));
        value.unwrap_or(&param.default).clone()
    }

    /// Returns where the sweep fixes a parameter, if it does.
    pub(super) fn span(&self, name: &str) -> Option<&Span> {
        self.explicit.get(name).map(|(_, span)| span)
    }
}

/// Reads both sections; `None` without a known kind, since nothing else can then be judged.
pub(super) fn read<'c>(
    model: Option<Table<'_>>,
    train: Option<Table<'_>>,
    catalogue: &'c [ModelSchema],
    report: &mut Report,
) -> Option<Fixed<'c>> {
    let mut model = model?;
    let kinds: Vec<_> = catalogue
        .iter()
        .map(|schema| (schema.kind, schema))
        .collect();
    let later: Vec<_> = KINDS_LATER
        .into_iter()
        .filter(|kind| kinds.iter().all(|(known, _)| known != kind))
        .collect();
    let kind = model.required("kind", report)?;
    let schema = kind.pick("model kind", &kinds, &later, report)?;
    let preset = model.get("preset");
    let preset = preset.and_then(|item| read_preset(&item, schema, report));
    let mut fixed = Fixed {
        schema,
        explicit: BTreeMap::new(),
        preset: preset.unwrap_or_default(),
    };
    for table in [Some(model), train].into_iter().flatten() {
        for (key, item) in table.items() {
            if table.name == "model" && ["kind", "preset"].contains(&key) {
                continue;
            }
            let Some(param) = find(&item, &item.name, schema, report) else {
                continue;
            };
            let value = typed(&item, &param.legal, report);
            let value = value.filter(|value| is_legal(&item, value, param, report));
            if let Some(value) = value {
                fixed.explicit.insert(param.name, (value, item.key_span));
            }
        }
    }
    Some(fixed)
}

fn read_preset(item: &Item<'_>, schema: &ModelSchema, report: &mut Report) -> Option<Params> {
    let presets: Vec<_> = schema
        .presets
        .iter()
        .map(|(name, values)| (*name, values))
        .collect();
    let values = item.pick("preset", &presets, &[], report)?;
    let values = values
        .iter()
        .map(|(name, v)| ((*name).to_owned(), v.clone()));
    Some(values.collect())
}

/// Looks a parameter up by its full name and notes an unknown one.
pub(super) fn find<'c>(
    item: &Item<'_>,
    name: &str,
    schema: &'c ModelSchema,
    report: &mut Report,
) -> Option<&'c ParamSchema> {
    if let Some(param) = schema.param(name) {
        return Some(param);
    }
    let (section, key) = name.split_once('.').unwrap_or(("", name));
    let in_other_section = schema.params.iter().find(|param| {
        let other = param.name.split_once('.');
        other.is_some_and(|(other_section, other)| other == key && other_section != section)
    });
    let names = || schema.params.iter().map(|param| param.name);
    let siblings = || names().filter(|param| param.split_once('.').is_some_and(|s| s.0 == section));
    let help = match (in_other_section, nearest(name, names())) {
        (Some(param), _) => format!("it is called `{}`", param.name),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => format!("valid keys: {}", quoted(siblings())),
    };
    let title = format!("unknown parameter `{name}`");
    let label = format!("not a parameter of model kind `{}`", schema.kind);
    report.error(&item.key_span, title, label, help);
    None
}

/// Reads a value of the type that a domain holds: an integer will do for a float, never the
/// other way round.
pub(super) fn typed(item: &Item<'_>, domain: &Domain, report: &mut Report) -> Option<Value> {
    match domain {
        Domain::Float { .. } => item.float(report).map(Value::Float),
        Domain::Int { .. } => item.int(report).map(Value::Int),
        Domain::Choice(values) => {
            let value = item.scalar(report)?;
            let has_type =
                |other: &&Value| std::mem::discriminant(*other) == std::mem::discriminant(&value);
            // An integer stands for a float only in a list of floats.
            match (values.iter().find(has_type), &value, values.first()) {
                (None, Value::Int(int), Some(Value::Float(_))) => Some(Value::Float(*int as f64)),
                _ => Some(value),
            }
        }
    }
}

/// Decides whether a value may be given to a parameter, and notes that it may not.
pub(super) fn is_legal(
    item: &Item<'_>,
    value: &Value,
    param: &ParamSchema,
    report: &mut Report,
) -> bool {
    let is_legal = param.legal.contains(value);
    if !is_legal {
        let title = format!("{value} is no legal value of `{}`", param.name);
        let label = format!("must be {}", any_of(&param.legal));
        report.error(
            &item.span(),
            title,
            label,
            nearest_help(value, &param.legal),
        );
    }
    is_legal
}

/// Says what a value may be, to follow "must be".
pub(super) fn any_of(domain: &Domain) -> String {
    match domain {
        Domain::Choice(_) => format!("one of {domain}"),
        Domain::Float { .. } | Domain::Int { .. } => domain.to_string(),
    }
}

/// Names the nearest value of a domain, or all of them.
pub(super) fn nearest_help(value: &Value, domain: &Domain) -> String {
    match nearest_value(value, domain) {
        Some(near) => format!("the nearest is {near}"),
        None => format!("write {}", any_of(domain)),
    }
}

/// Names the value of a domain that is nearest to another of the same type.
fn nearest_value(value: &Value, domain: &Domain) -> Option<Value> {
    match (domain, value) {
        (
            Domain::Float {
                low, high, step, ..
            },
            Value::Float(value),
        ) => {
            let clamped = value.clamp(*low, *high);
            let on_grid = step.map(|step| low + ((clamped - low) / step).round() * step);
            Some(Value::Float(on_grid.unwrap_or(clamped)))
        }
        (
            Domain::Int {
                low, high, step, ..
            },
            Value::Int(value),
        ) => {
            let step = i128::from(step.unwrap_or(1));
            let offset = i128::from(*value.clamp(low, high)) - i128::from(*low);
            let cells = (offset + step / 2) / step;
            let near = i128::from(*low) + (cells * step);
            let near = if near > i128::from(*high) {
                near - step
            } else {
                near
            };
            i64::try_from(near).ok().map(Value::Int)
        }
        (Domain::Choice(values), Value::Text(text)) => {
            let names = values.iter().filter_map(Value::as_text);
            nearest(text, names).map(|near| Value::Text(near.to_owned()))
        }
        _ => None,
    }
}

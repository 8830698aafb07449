//! The `[[enqueue]]` points.

use super::cursor::{Item, Table};
use super::diagnostic::Report;
use super::params::{Fixed, any_of, find, nearest_help, typed};
use super::space::{Space, explain_unquoted};
use crate::study::{Params, Value};

/// Reads the points to run first. A point may leave parameters out: they are sampled.
pub(super) fn read(
    item: &Item<'_>,
    fixed: &Fixed<'_>,
    space: &Space<'_>,
    report: &mut Report,
) -> Vec<Params> {
    if !item.is_array() {
        let help = "write `[[enqueue]]`, once per point";
        item.wrong_type(report, "a list of points", help);
        return Vec::new();
    }
    let mut points: Vec<Params> = Vec::new();
    for item in item.list(report).unwrap_or_default() {
        let Some(table) = item.table(report) else {
            continue;
        };
        let mut point = Params::new();
        for (name, item) in table.items() {
            if let Some(value) = read_coordinate(name, &item.named(name), fixed, space, report) {
                point.insert(name.to_owned(), value);
            }
        }
        refuse_idle(&table, &point, space, report);
        if table.items().next().is_none() {
            let title = "an enqueued point is empty";
            let help = "name at least one searched parameter, or remove the point";
            report.error(&item.span(), title, "nothing is set", help);
        } else if !point.is_empty() && points.contains(&point) {
            let title = "an enqueued point is listed twice";
            report.error(&item.span(), title, "already listed", "remove it");
        }
        points.push(point);
    }
    points
}

fn read_coordinate(
    name: &str,
    item: &Item<'_>,
    fixed: &Fixed<'_>,
    space: &Space<'_>,
    report: &mut Report,
) -> Option<Value> {
    if !name.contains('.') {
        explain_unquoted(name, item, report);
        return None;
    }
    let schema = find(item, name, fixed.schema, report)?;
    let Some(param) = space.get(name) else {
        if space.is_faulty(name) {
            return None;
        }
        let title = format!("`{name}` is not searched");
        let help = format!("remove it, or search `{}` in `[space]`", schema.name);
        report.error(&item.key_span, title, "not in `[space]`", help);
        return None;
    };
    let value = typed(item, &schema.legal, report)?;
    if !param.domain.contains(&value) {
        let title = format!("an enqueued point lies outside the space: `{name}` = {value}");
        let label = format!("must be {}", any_of(&param.domain));
        let help = nearest_help(&value, &param.domain);
        report.error(&item.span(), title, label, help).related =
            Some((param.key_span.clone(), "searched here".to_owned()));
        return None;
    }
    Some(value)
}

/// Notes what a point sets although nothing in the point makes its condition hold.
fn refuse_idle(table: &Table<'_>, point: &Params, space: &Space<'_>, report: &mut Report) {
    for (name, item) in table.items() {
        let when = space.get(name).and_then(|param| param.when.as_ref());
        let Some(when) = when.filter(|_| point.contains_key(name)) else {
            continue;
        };
        let controller = point.get(&when.name);
        if controller.is_some_and(|value| when.values.contains(value)) {
            continue;
        }
        let title = format!("`{name}` does nothing in this point");
        let label = match controller {
            Some(value) => format!("`{}` is {value}", when.name),
            None => format!("depends on `{}`", when.name),
        };
        let help = format!("set `{}` to {} in the point", when.name, when.values[0]);
        report.error(&item.key_span, title, label, help);
    }
}

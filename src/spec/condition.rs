//! Conditions: which searched parameter matters only under which value of another.

use super::diagnostic::{Report, Span, nearest};
use super::params::Fixed;
use super::space::{Searched, Space};
use crate::study::{Domain, ParamSchema, Value, When};

/// Settles every condition.
///
/// A condition of the schema is taken over where its controlling parameter is searched and
/// dropped where it always holds. What could never matter is noted as a fault.
pub(super) fn resolve(fixed: &Fixed<'_>, space: &mut Space<'_>, report: &mut Report) {
    let n_faults = report.len();
    for at in 0..space.params.len() {
        let settled = settle(fixed, space, at, report);
        space.params[at].when = settled;
    }
    refuse_idle_fixed(fixed, space, report);
    if report.len() == n_faults {
        refuse_cycles(space, report);
    }
}

fn settle(fixed: &Fixed<'_>, space: &Space<'_>, at: usize, report: &mut Report) -> Option<When> {
    let param = &space.params[at];
    let own = match &param.when {
        Some(when) => Some(judge_own(when, fixed, space, param, report)?),
        None => None,
    };
    let Some(innate) = &param.schema.when else {
        return own;
    };
    if let Some(own) = &own {
        let is_narrower =
            own.name == innate.name && own.values.iter().all(|v| innate.values.contains(v));
        if !is_narrower {
            let title = format!(
                "`{}` matters only under another condition",
                param.schema.name
            );
            let label = format!("not within {}", describe(innate));
            let span = param.when_span.clone().unwrap_or(param.key_span.clone());
            report.error(&span, title, label, "remove `when`: it is known");
        }
        return Some(own.clone());
    }
    match possible(&innate.name, fixed, space) {
        Possible::Of(values) => {
            if !values.iter().any(|value| innate.values.contains(value)) {
                note_idle(param.schema, innate, &param.key_span, report);
            }
            let always = values.iter().all(|value| innate.values.contains(value));
            (!always).then(|| innate.clone())
        }
        Possible::Range => Some(innate.clone()),
    }
}

/// Judges a condition that the sweep states, its values typed like the controlling parameter's.
fn judge_own(
    when: &When,
    fixed: &Fixed<'_>,
    space: &Space<'_>,
    param: &Searched<'_>,
    report: &mut Report,
) -> Option<When> {
    let span = param.when_span.clone().unwrap_or(param.key_span.clone());
    let name = &when.name;
    let Some(controller) = space.get(name) else {
        if space.is_faulty(name) {
            return None;
        }
        let (label, help) = if fixed.schema.param(name).is_some() {
            let help = format!("search `{name}`, or remove `when`");
            ("not searched, so it never changes", help)
        } else {
            let names = space.params.iter().map(|other| other.schema.name);
            let help = match nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a parameter of `[space]`".to_owned(),
            };
            ("no such parameter", help)
        };
        let title = format!("condition on `{name}`, which is not searched");
        report.error(&span, title, label, help);
        return None;
    };
    if matches!(controller.domain, Domain::Float { step: None, .. }) {
        let title = format!("condition on `{name}`, whose values are a continuum");
        let help = "make the controlling parameter a choice";
        report.error(&span, title, "almost never holds", help);
        return None;
    }
    let is_float = matches!(controller.schema.legal, Domain::Float { .. });
    let values = when.values.iter().map(|value| match value {
        Value::Int(int) if is_float => Value::Float(*int as f64),
        other => other.clone(),
    });
    let values: Vec<_> = values.collect();
    if let Some(stray) = values.iter().find(|v| !controller.domain.contains(v)) {
        let title = format!("condition on a value that `{name}` never has");
        let label = format!("{stray} is not in its range");
        let help = format!("`{name}` is searched over {}", controller.domain);
        report.error(&span, title, label, help).related =
            Some((controller.key_span.clone(), "searched here".to_owned()));
        return None;
    }
    if let Domain::Choice(all) = &controller.domain
        && all.iter().all(|value| values.contains(value))
    {
        let title = format!("condition on `{name}` always holds");
        report.error(&span, title, "lists every choice", "remove `when`");
        return None;
    }
    Some(When {
        name: name.clone(),
        values,
    })
}

/// What a parameter may be in this study.
enum Possible {
    /// One of these.
    Of(Vec<Value>),
    /// Anything in a range.
    Range,
}

fn possible(name: &str, fixed: &Fixed<'_>, space: &Space<'_>) -> Possible {
    match space.get(name) {
        Some(controller) => match &controller.domain {
            Domain::Choice(values) => Possible::Of(values.clone()),
            Domain::Float { .. } | Domain::Int { .. } => Possible::Range,
        },
        None => {
            let schema = fixed.schema.param(name);
            let schema = schema.expect("a schema's conditions name parameters of the schema");
            Possible::Of(vec![fixed.value(schema)])
        }
    }
}

/// Notes parameters that the sweep fixes although they can never matter.
fn refuse_idle_fixed(fixed: &Fixed<'_>, space: &Space<'_>, report: &mut Report) {
    for param in &fixed.schema.params {
        let (Some(when), Some(span)) = (&param.when, fixed.span(param.name)) else {
            continue;
        };
        match possible(&when.name, fixed, space) {
            Possible::Of(values) if !values.iter().any(|v| when.values.contains(v)) => {
                note_idle(param, when, span, report);
            }
            Possible::Of(_) | Possible::Range => {}
        }
    }
}

fn note_idle(param: &ParamSchema, when: &When, span: &Span, report: &mut Report) {
    let title = format!("`{}` does nothing here", param.name);
    let label = format!("matters only where {}", describe(when));
    let help = format!("remove it, or set `{}`", when.name);
    report.error(span, title, label, help);
}

fn refuse_cycles(space: &Space<'_>, report: &mut Report) {
    let next = |name: &str| {
        let when = space.get(name)?.when.as_ref()?;
        Some(when.name.as_str())
    };
    for start in &space.params {
        let mut path = vec![start.schema.name];
        while let Some(name) = next(path[path.len() - 1]) {
            if name == start.schema.name {
                // Each cycle once, at its first member by name.
                if path.iter().all(|other| start.schema.name <= *other) {
                    path.push(name);
                    let title = "conditions go round in a circle";
                    let label = path.join(" → ");
                    let span = start.when_span.clone().unwrap_or(start.key_span.clone());
                    report.error(&span, title, label, "remove one `when`");
                }
                break;
            }
            if path.contains(&name) {
                break;
            }
            path.push(name);
        }
    }
}

fn describe(when: &When) -> String {
    let values: Vec<_> = when.values.iter().map(ToString::to_string).collect();
    format!("`{}` is {}", when.name, values.join(" or "))
}

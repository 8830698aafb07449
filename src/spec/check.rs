//! What must hold between values, sections included.

use super::cursor::Item;
use super::diagnostic::{Report, Span};
use super::params::Fixed;
use super::space::Space;
use super::types::{SamplerKind, StudySpec};
use crate::study::{Domain, ParamSchema, Value};

/// Dimensions and points that the Sobol sequence has.
const SOBOL_DIMENSIONS_MAX: usize = 256;
const SOBOL_POINTS_MAX: u32 = 1 << 16;

/// Notes parameters that may exceed another one which bounds them.
pub(super) fn at_most(fixed: &Fixed<'_>, space: &Space<'_>, report: &mut Report) {
    for (small, large) in &fixed.schema.at_most {
        if space.is_faulty(small) || space.is_faulty(large) {
            continue;
        }
        let [small, large] = [small, large].map(|name| {
            let param = fixed.schema.param(name);
            param.expect("a schema bounds its own parameters")
        });
        let (_, reach) = ends(small, fixed, space);
        let (bound, _) = ends(large, fixed, space);
        let exceeds = match (reach.as_f64(), bound.as_f64()) {
            (Some(reach), Some(bound)) => reach > bound,
            _ => false,
        };
        if !exceeds {
            continue;
        }
        let spans = [small, large].map(|param| place(param, fixed, space));
        let [small_label, large_label] = [
            format!("`{}` reaches {reach}", small.name),
            format!("`{}` may be {bound}", large.name),
        ];
        let title = format!("`{}` may exceed `{}`", small.name, large.name);
        let help = format!(
            "set `{}` to at least {reach}, or `{}` to at most {bound}",
            large.name, small.name
        );
        match spans {
            [Some(small), large] => {
                let item = report.error(&small, title, small_label, help);
                item.related = large.map(|large| (large, large_label));
            }
            [None, large] => {
                let label = format!("{large_label}, {small_label}");
                report.error(&large.unwrap_or(0..0), title, label, help);
            }
        }
    }
}

/// Notes counts that may fail to be a multiple of another one.
pub(super) fn multiple_of(fixed: &Fixed<'_>, space: &Space<'_>, report: &mut Report) {
    for (whole, part) in &fixed.schema.multiple_of {
        if space.is_faulty(whole) || space.is_faulty(part) {
            continue;
        }
        let [whole, part] = [whole, part].map(|name| {
            let param = fixed.schema.param(name);
            param.expect("a schema relates its own parameters")
        });
        let (wholes, parts) = (counts(whole, fixed, space), counts(part, fixed, space));
        let broken = parts.into_iter().flat_map(Counts::all).find_map(|part| {
            let value = wholes
                .iter()
                .find_map(|counts| counts.first_between(part))?;
            Some((value, part))
        });
        let Some((value, divisor)) = broken else {
            continue;
        };
        let title = format!("`{}` must be a multiple of `{}`", whole.name, part.name);
        let [whole_label, part_label] = [
            format!("`{}` may be {value}", whole.name),
            format!("`{}` may be {divisor}", part.name),
        ];
        let help = format!(
            "{value} is no multiple of {divisor}: the next one is {}",
            (value / divisor).saturating_add(1).saturating_mul(divisor)
        );
        match [whole, part].map(|param| place(param, fixed, space)) {
            [Some(whole), part] => {
                let item = report.error(&whole, title, whole_label, help);
                item.related = part.map(|part| (part, part_label));
            }
            [None, part] => {
                let label = format!("{part_label}, {whole_label}");
                report.error(&part.unwrap_or(0..0), title, label, help);
            }
        }
    }
}

/// Integers from `low` to `high` in steps.
#[derive(Clone, Copy)]
struct Counts {
    low: i64,
    high: i64,
    step: i64,
}

impl Counts {
    fn all(self) -> impl Iterator<Item = i64> {
        std::iter::successors(Some(self.low), move |at| at.checked_add(self.step))
            .take_while(move |at| *at <= self.high)
    }

    /// The first that is no multiple of `part`: either the first or the second, or none.
    fn first_between(self, part: i64) -> Option<i64> {
        self.all().take(2).find(|value| value % part != 0)
    }
}

/// Returns the values that an integer parameter may have in this study.
fn counts(param: &ParamSchema, fixed: &Fixed<'_>, space: &Space<'_>) -> Vec<Counts> {
    let one = |value: &Value| {
        let value = value.as_int()?;
        Some(Counts {
            low: value,
            high: value,
            step: 1,
        })
    };
    match space.get(param.name).map(|own| &own.domain) {
        None => one(&fixed.value(param)).into_iter().collect(),
        Some(Domain::Int {
            low, high, step, ..
        }) => {
            vec![Counts {
                low: *low,
                high: *high,
                step: step.unwrap_or(1),
            }]
        }
        Some(Domain::Choice(values)) => values.iter().filter_map(one).collect(),
        Some(Domain::Float { .. }) => Vec::new(),
    }
}

/// Returns the least and the largest value that a numeric parameter may have in this study.
fn ends(param: &ParamSchema, fixed: &Fixed<'_>, space: &Space<'_>) -> (Value, Value) {
    match space.get(param.name).map(|own| &own.domain) {
        None => (fixed.value(param), fixed.value(param)),
        Some(Domain::Float { low, high, .. }) => (Value::Float(*low), Value::Float(*high)),
        Some(Domain::Int { low, high, .. }) => (Value::Int(*low), Value::Int(*high)),
        Some(Domain::Choice(values)) => {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let by_size = |a: &&Value, b: &&Value| number(a).total_cmp(&number(b));
            let least = values.iter().min_by(by_size);
            let largest = values.iter().max_by(by_size);
            let read = "a choice holds at least one value";
            (least.expect(read).clone(), largest.expect(read).clone())
        }
    }
}

fn place(param: &ParamSchema, fixed: &Fixed<'_>, space: &Space<'_>) -> Option<Span> {
    let own = space.get(param.name).map(|own| own.key_span.clone());
    own.or_else(|| fixed.span(param.name).cloned())
}

/// Places that a check across sections may point at.
pub(super) struct Places<'t> {
    pub(super) metric: Option<Item<'t>>,
    pub(super) folds: Option<Item<'t>>,
    pub(super) configurations: Option<Item<'t>>,
    pub(super) sampler: Option<Item<'t>>,
    pub(super) enqueue: Option<Item<'t>>,
}

/// Notes what holds within each section but not between them.
pub(super) fn across(spec: &StudySpec, places: &Places<'_>, report: &mut Report) {
    let span = |item: &Option<Item<'_>>| item.as_ref().map_or(0..0, Item::span);
    let metric = spec.objective.metric;
    if (spec.split.folds as usize) < metric.n_folds_min() {
        let title = format!("metric `{}` needs two folds or more", metric.as_str());
        let help = "write folds = 2, or metric = \"validation.sharpe\"";
        let related = places.metric.as_ref().map(Item::span);
        report
            .error(&span(&places.folds), title, "too few", help)
            .related = related.map(|span| (span, "needs a standard error".to_owned()));
    }
    let configurations = spec.budget.configurations;
    if spec.enqueue.len() > configurations as usize {
        let title = "more points are enqueued than configurations run";
        let label = format!("{} points", spec.enqueue.len());
        let help = format!("write configurations = {} or more", spec.enqueue.len());
        let at = places.enqueue.as_ref().map(|item| item.key_span.clone());
        report
            .error(&at.unwrap_or(0..0), title, label, help)
            .related = Some((span(&places.configurations), "too few".to_owned()));
    }
    // After a fault the space may be empty for no other reason.
    if spec.space.is_empty() && configurations > 1 && report.is_empty() {
        let title = "nothing is searched, so every configuration would be the same";
        let help = "write configurations = 1, or search something in `[space]`";
        report.error(&span(&places.configurations), title, "more than one", help);
    }
    if spec.sampler == SamplerKind::Sobol {
        if configurations > SOBOL_POINTS_MAX {
            let title = format!("sampler `sobol` has {SOBOL_POINTS_MAX} points");
            let help = "run fewer configurations, or use sampler `random`";
            report.error(&span(&places.configurations), title, "more than that", help);
        }
        if spec.space.len() > SOBOL_DIMENSIONS_MAX {
            let title = format!("sampler `sobol` has {SOBOL_DIMENSIONS_MAX} dimensions");
            let help = "search fewer parameters, or use sampler `random`";
            report.error(&span(&places.sampler), title, "too few dimensions", help);
        }
    }
}

//! The whole document, section by section.

use super::check::{self, Places};
use super::cursor::{Item, Table};
use super::diagnostic::Report;
use super::params::Fixed;
use super::space::Searched;
use super::types::{SpaceParam, StudySpec};
use super::{data, enqueue, params, running, space, study};
use crate::study::{ModelSchema, Params};
use std::path::Path;
use toml::Spanned;
use toml::de::DeTable;

/// Reads every section before giving up, so that faults of all of them are noted.
// tidy: long, because it lists the fourteen sections of the file, one statement each.
pub(super) fn read<'t>(
    document: &'t Spanned<DeTable<'t>>,
    path: &Path,
    catalogue: &[ModelSchema],
    report: &mut Report,
) -> Option<StudySpec> {
    let mut root = Table::root(document);
    let identity = root.section("study", report);
    let identity = identity.and_then(|table| study::read_study(table, path, report));
    let objective = study::read_objective(root.get("objective"), report);
    let data = root.section("data", report);
    let data = data.and_then(|table| data::read_data(table, report));
    let split = root.section("split", report);
    let split = split.and_then(|table| data::read_split(table, report));
    let bar = data.as_ref().map(|data| data.bar);
    let market = root.section_or_empty("market", report);
    let market = market.and_then(|table| data::read_market(table, bar, report));
    let model = root.section("model", report);
    let train = root.section_or_empty("train", report);
    let fixed = params::read(model, train, catalogue, report);
    let searched = root.section_or_empty("space", report);
    let enqueue = root.get("enqueue");
    let points = fixed
        .zip(searched)
        .map(|(fixed, table)| read_points(fixed, &table, enqueue.as_ref(), report));
    let precision = root.section_or_empty("precision", report);
    let precision = precision.and_then(|table| running::read_precision(table, report));
    let budget = root.section("budget", report);
    let budget = budget.and_then(|table| running::read_budget(table, report));
    let sampler = root.section("sampler", report);
    let sampler = sampler.and_then(|table| running::read_sampler(table, report));
    let pruner = root.section_or_empty("pruner", report);
    let pruner = pruner.and_then(|table| running::read_pruner(table, report));
    let scheduler = root.section_or_empty("scheduler", report);
    let scheduler = scheduler.and_then(|table| running::read_scheduler(table, report));
    let executors = root.section_or_empty("executors", report);
    let executors = executors.and_then(|table| running::read_executors(table, report));
    root.finish(report);
    let identity = identity?;
    let points = points?;
    let spec = StudySpec {
        name: identity.name,
        seed: identity.seed,
        series: identity.series,
        objective: objective?,
        data: data?,
        split: split?,
        market: market?,
        kind: points.kind,
        fixed: points.fixed,
        space: points.space,
        enqueue: points.enqueue,
        precision: precision?,
        budget: budget?,
        sampler: sampler?,
        pruner: pruner?,
        scheduler: scheduler?,
        executors: executors?,
        spans_run: points.spans_run,
    };
    check::across(&spec, &places(document), report);
    Some(spec)
}

/// The model's part of a spec.
struct Points {
    kind: String,
    fixed: Params,
    space: Vec<SpaceParam>,
    enqueue: Vec<Params>,
    spans_run: Option<String>,
}

fn read_points(
    fixed: Fixed<'_>,
    table: &Table<'_>,
    points: Option<&Item<'_>>,
    report: &mut Report,
) -> Points {
    let space = space::read(table, &fixed, report);
    let enqueue = points
        .map(|item| enqueue::read(item, &fixed, &space, report))
        .unwrap_or_default();
    check::at_most(&fixed, &space, report);
    check::multiple_of(&fixed, &space, report);
    let is_searched = |name: &str| space.get(name).is_some();
    let schema = fixed.schema;
    let spans_run = schema.params.iter().find(|param| {
        let is_zero = !is_searched(param.name) && fixed.value(param).as_f64() == Some(0.0);
        param.spans_run && !is_zero
    });
    let constant = schema
        .params
        .iter()
        .filter(|param| !is_searched(param.name));
    Points {
        kind: schema.kind.to_owned(),
        fixed: constant
            .map(|param| (param.name.to_owned(), fixed.value(param)))
            .collect(),
        spans_run: spans_run.map(|param| param.name.to_owned()),
        space: space
            .params
            .iter()
            .map(|s| space_param(s, &fixed))
            .collect(),
        enqueue,
    }
}

fn space_param(searched: &Searched<'_>, fixed: &Fixed<'_>) -> SpaceParam {
    let schema = searched.schema;
    // Whether a part is there at all is structural where the space holds both.
    let switches = schema
        .off
        .as_ref()
        .is_some_and(|off| searched.domain.contains(off) && searched.domain.n_values() != Some(1));
    SpaceParam {
        name: schema.name.to_owned(),
        domain: searched.domain.clone(),
        when: searched.when.clone(),
        structural: schema.structural || switches,
        default: fixed.value(schema),
    }
}

fn places<'t>(document: &'t Spanned<DeTable<'t>>) -> Places<'t> {
    let find = |section: &'static str, key: &'static str| {
        let mut unheard = Report::default();
        let section = Table::root(document).get(section)?;
        section.table(&mut unheard)?.get(key)
    };
    Places {
        metric: find("objective", "metric"),
        folds: find("split", "folds"),
        configurations: find("budget", "configurations"),
        sampler: find("sampler", "kind"),
        enqueue: Table::root(document).get("enqueue"),
    }
}

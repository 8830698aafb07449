//! A spec back to a sweep file.

use super::types::{Calendar, DataSource, Devices, EvaluateIn, SpaceParam, StudySpec, TrainWindow};
use crate::study::{Direction, Domain, ModelSchema, Scale, Value};
use std::fmt::Display;

/// Writes the sweep file that reads back as `spec`.
///
/// Parameters at their default are left out; the file's stem must be the study's name. Presets
/// are written out, so what one sets for a searched parameter with a condition is not kept.
pub fn render(spec: &StudySpec, schema: &ModelSchema) -> String {
    let mut file = File::default();
    identity(&mut file, spec);
    data(&mut file, spec);
    params(&mut file, spec, schema);
    running(&mut file, spec);
    file.text
}

#[derive(Default)]
struct File {
    text: String,
}

impl File {
    fn section(&mut self, header: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(header);
        self.text.push('\n');
    }

    fn entry(&mut self, key: &str, value: impl Display) {
        self.text.push_str(&format!("{key} = {value}\n"));
    }
}

fn identity(file: &mut File, spec: &StudySpec) {
    file.section("[study]");
    file.entry("name", quote(&spec.name));
    file.entry("seed", spec.seed);
    if let Some(series) = &spec.series {
        file.entry("series", quote(series));
    }
    file.section("[objective]");
    file.entry("metric", quote(spec.objective.metric.as_str()));
    let direction = match spec.objective.direction {
        Direction::Maximize => "maximize",
        Direction::Minimize => "minimize",
    };
    file.entry("direction", quote(direction));
    file.entry("min_trades", spec.objective.min_trades);
}

fn data(file: &mut File, spec: &StudySpec) {
    file.section("[data]");
    match &spec.data.source {
        DataSource::Csv { path, columns } => {
            file.entry("source", quote("csv"));
            file.entry("path", quote(path));
            let columns = columns.iter().map(|(k, v)| format!("{k} = {}", quote(v)));
            let columns: Vec<_> = columns.collect();
            file.entry("columns", format!("{{ {} }}", columns.join(", ")));
        }
        DataSource::Synthetic {
            bars,
            seed,
            rho,
            shuffled,
        } => {
            file.entry("source", quote("synthetic"));
            file.entry("bars", bars);
            file.entry("seed", seed);
            file.entry("rho", format!("{rho:?}"));
            file.entry("shuffled", shuffled);
        }
    }
    file.entry("bar", quote(spec.data.bar.as_str()));
    if let Some(zone) = &spec.data.time_zone {
        file.entry("time_zone", quote(zone));
    }
    match spec.data.calendar {
        Calendar::UsEquity => file.entry("calendar", quote("us_equity")),
        Calendar::Custom { bars_per_year } => {
            let custom = format!("{{ custom = {{ bars_per_year = {bars_per_year:?} }} }}");
            file.entry("calendar", custom);
        }
    }
    file.section("[split]");
    file.entry("folds", spec.split.folds);
    match spec.split.window {
        TrainWindow::Expanding => file.entry("window", quote("expanding")),
        TrainWindow::Rolling { train_bars } => {
            file.entry("window", quote("rolling"));
            file.entry("train_bars", train_bars);
        }
    }
    file.entry("validation_bars", spec.split.validation_bars);
    file.entry("holdout_bars", spec.split.holdout_bars);
    file.entry("purge_bars", auto(spec.split.purge_bars));
    file.section("[market]");
    if spec.data.bar.is_intraday() {
        file.entry("flatten", spec.market.flatten);
    }
    file.entry("capital", format!("{:?}", spec.market.capital));
    let cost = &spec.market.cost;
    let cost = format!(
        "{{ fee_bp = {:?}, maker_fee_bp = {:?}, half_spread_bp = {:?}, impact = {:?} }}",
        cost.fee_bp, cost.maker_fee_bp, cost.half_spread_bp, cost.impact
    );
    file.entry("cost", cost);
}

fn params(file: &mut File, spec: &StudySpec, schema: &ModelSchema) {
    for section in ["model", "train"] {
        file.section(&format!("[{section}]"));
        if section == "model" {
            file.entry("kind", quote(&spec.kind));
        }
        for param in &schema.params {
            let Some((own, key)) = param.name.split_once('.') else {
                continue;
            };
            let value = spec.fixed.get(param.name);
            // The default of a searched parameter is set nowhere but by a preset.
            let value = value.filter(|value| **value != param.default && own == section);
            if let Some(value) = value {
                file.entry(key, toml(value));
            }
        }
    }
    file.section("[space]");
    for param in &spec.space {
        file.entry(&quote(&param.name), range(param, schema));
    }
    for point in &spec.enqueue {
        file.section("[[enqueue]]");
        for (name, value) in point {
            file.entry(&quote(name), toml(value));
        }
    }
}

fn range(param: &SpaceParam, schema: &ModelSchema) -> String {
    let (mut text, scale, step) = match &param.domain {
        Domain::Float {
            low,
            high,
            scale,
            step,
        } => (
            format!("float = [{low:?}, {high:?}]"),
            *scale,
            step.map(|step| format!("{step:?}")),
        ),
        Domain::Int {
            low,
            high,
            scale,
            step,
        } => (
            format!("int = [{low}, {high}]"),
            *scale,
            step.map(|step| step.to_string()),
        ),
        Domain::Choice(values) => (format!("choice = [{}]", list(values)), Scale::Linear, None),
    };
    if scale != Scale::Linear {
        text += &format!(", scale = {}", quote(scale.as_str()));
    }
    if let Some(step) = step {
        text += &format!(", step = {step}");
    }
    let innate = schema
        .param(&param.name)
        .and_then(|param| param.when.as_ref());
    if let Some(when) = &param.when
        && Some(when) != innate
    {
        let values = list(&when.values);
        text += &format!(", when = {{ {} = [{values}] }}", quote(&when.name));
    }
    format!("{{ {text} }}")
}

fn running(file: &mut File, spec: &StudySpec) {
    file.section("[precision]");
    let arms: Vec<_> = spec
        .precision
        .arms
        .iter()
        .map(|arm| quote(arm.as_str()))
        .collect();
    file.entry("arms", format!("[{}]", arms.join(", ")));
    if arms.len() > 1 {
        file.entry(
            "margin_sharpe",
            format!("{:?}", spec.precision.margin_sharpe),
        );
        file.entry("margin_time", format!("{:?}", spec.precision.margin_time));
    }
    match spec.precision.evaluate_in {
        EvaluateIn::Arm => {}
        EvaluateIn::F32 => file.entry("evaluate_in", quote("f32")),
    }
    file.section("[budget]");
    file.entry("configurations", spec.budget.configurations);
    file.entry("replicates", spec.budget.replicates);
    file.entry("epochs", spec.budget.epochs);
    if let Some(wall_s) = spec.budget.wall_s {
        file.entry("wall", quote(&format!("{wall_s}s")));
    }
    file.section("[sampler]");
    file.entry("kind", quote(spec.sampler.as_str()));
    file.section("[pruner]");
    file.entry("kind", quote(spec.pruner.as_str()));
    file.section("[scheduler]");
    file.entry("cohort", spec.scheduler.cohort);
    file.section("[executors]");
    match &spec.executors.devices {
        Devices::Auto => file.entry("devices", quote("auto")),
        Devices::Cpu => file.entry("devices", quote("cpu")),
        Devices::Gpus(names) => {
            let names: Vec<_> = names.iter().map(|name| quote(name)).collect();
            file.entry("devices", format!("[{}]", names.join(", ")));
        }
    }
    file.entry("per_device", auto(spec.executors.per_device));
    file.entry("lanes", auto(spec.executors.lanes));
    file.entry(
        "memory_fraction",
        format!("{:?}", spec.executors.memory_fraction),
    );
    file.entry("overlap", spec.executors.overlap);
}

fn auto(count: Option<u32>) -> String {
    count.map_or_else(|| quote("auto"), |count| count.to_string())
}

fn list(values: &[Value]) -> String {
    values.iter().map(toml).collect::<Vec<_>>().join(", ")
}

fn toml(value: &Value) -> String {
    match value {
        Value::Text(text) => quote(text),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_string(),
    }
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

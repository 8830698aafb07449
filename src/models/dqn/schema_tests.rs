//! Every key, default and suggested range against the published ones.

use super::schema;
use crate::study::{Domain, Value};
use std::collections::BTreeSet;

/// Compares ends and choices: whether a suggested range lies in the legal one.
fn lies_within(inner: &Domain, legal: &Domain) -> bool {
    let ends = match inner {
        Domain::Float { low, high, .. } => vec![Value::Float(*low), Value::Float(*high)],
        Domain::Int {
            low, high, step, ..
        } => vec![
            Value::Int(*low),
            Value::Int(*high),
            Value::Int(low + step.unwrap_or(1)),
        ],
        Domain::Choice(values) => values.clone(),
    };
    ends.iter().all(|end| legal.contains(end))
}

#[test]
fn defaults_presets_and_suggestions_are_legal() {
    let schema = schema();
    let names: BTreeSet<_> = schema.params.iter().map(|param| param.name).collect();
    assert_eq!(names.len(), schema.params.len(), "names are distinct");
    for param in &schema.params {
        let name = param.name;
        assert!(name.starts_with("model.") || name.starts_with("train."));
        assert!(param.legal.contains(&param.default), "default of {name}");
        assert!(param.off.iter().all(|off| param.legal.contains(off)));
        if let Some(suggested) = &param.suggested {
            assert!(lies_within(suggested, &param.legal), "range of {name}");
        }
        if let Some(when) = &param.when {
            let controller = schema.param(&when.name).unwrap();
            assert!(when.values.iter().all(|v| controller.legal.contains(v)));
        }
    }
    for (preset, values) in &schema.presets {
        for (name, value) in values {
            let param = schema.param(name).unwrap();
            assert!(param.legal.contains(value), "{preset}: {name}");
        }
    }
    for (small, large) in &schema.at_most {
        let default = |name| schema.param(name).unwrap().default.as_f64().unwrap();
        assert!(default(small) <= default(large), "{small} and {large}");
    }
}

#[test]
fn exactly_what_changes_shapes_or_the_graph_is_structural() {
    let schema = schema();
    let structural = schema.params.iter().filter(|param| param.structural);
    let structural: Vec<_> = structural.map(|param| param.name).collect();
    assert_eq!(
        structural,
        [
            "model.trunk_width",
            "model.trunk_layers",
            "model.head_width",
            "model.atoms",
            "model.state_width",
            "model.n_step_max",
            "train.batch_size",
            "train.environments",
            "train.updates_per_env_step",
            "train.steps_per_epoch",
            "train.replay_capacity_max",
        ]
    );
}

#[test]
fn the_reference_workload_is_as_published() {
    let schema = schema();
    let preset = schema.preset("ref-dqn").unwrap();
    let value = |name| &preset.iter().find(|(key, _)| *key == name).unwrap().1;
    assert_eq!(value("model.gamma"), &Value::Float(0.99));
    assert_eq!(value("model.n_step"), &Value::Int(1));
    assert_eq!(value("model.state_width"), &Value::Int(64));
    assert_eq!(value("model.sigma_max"), &Value::Float(3.0));
    assert_eq!(value("train.batch_size"), &Value::Int(256));
    assert!(schema.preset("ref-dqm").is_none());
}

#[test]
fn defaults_are_as_published() {
    let schema = schema();
    let defaults: Vec<_> = schema
        .params
        .iter()
        .map(|param| format!("{} {}", param.name, param.default))
        .collect();
    assert_eq!(
        defaults,
        [
            "model.trunk_width 256",
            "model.trunk_layers 2",
            "model.head_width 128",
            "model.atoms 51",
            "model.state_width 0",
            "model.sigma_max 3.0",
            "model.v_max 10.0",
            "model.gamma 0.99",
            "model.n_step 3",
            "model.n_step_max 10",
            "model.double true",
            "model.tau 0.005",
            "model.epsilon_start 1.0",
            "model.epsilon_end 0.05",
            "model.epsilon_fraction 0.25",
            "train.lr 0.0001",
            "train.beta1 0.9",
            "train.beta2 0.999",
            "train.adam_eps 1e-8",
            "train.weight_decay 0.0",
            "train.max_grad_norm 10.0",
            "train.batch_size 256",
            "train.environments 16",
            "train.updates_per_env_step 4",
            "train.steps_per_epoch 2500",
            "train.replay_capacity 100000",
            "train.replay_capacity_max 100000",
            "train.replay_warmup 1000",
            "train.reward \"pnl_over_sigma\"",
            "train.risk_lambda 1.0",
        ]
    );
}

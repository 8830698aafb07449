//! What the DQN can be told: every key with its legal values, default and suggested range.

use crate::study::{Domain, ModelSchema, ParamSchema, Scale, Value, When};

/// Describes the DQN's parameters and presets.
pub fn schema() -> ModelSchema {
    let mut params = network();
    params.extend(learning());
    params.extend(exploration());
    params.extend(optimizer());
    params.extend(loop_sizes());
    params.extend(replay());
    params.extend(reward());
    ModelSchema {
        kind: "dqn",
        doc: "branching dueling C51 double DQN",
        params,
        presets: vec![("ref-dqn", ref_dqn())],
        at_most: vec![
            ("model.n_step", "model.n_step_max"),
            ("model.epsilon_end", "model.epsilon_start"),
            ("train.replay_warmup", "train.replay_capacity"),
            ("train.replay_capacity", "train.replay_capacity_max"),
        ],
        multiple_of: vec![("train.steps_per_epoch", "train.updates_per_env_step")],
    }
}

fn network() -> Vec<ParamSchema> {
    vec![
        ParamSchema {
            suggested: Some(int_step(32, 512, 32)),
            ..structural(
                "model.trunk_width",
                int_step(8, 4096, 8),
                256,
                "units of each shared layer",
            )
        },
        ParamSchema {
            suggested: Some(int(1, 4)),
            ..structural(
                "model.trunk_layers",
                int(1, 8),
                2,
                "number of shared layers",
            )
        },
        ParamSchema {
            suggested: Some(int_step(16, 256, 16)),
            ..structural(
                "model.head_width",
                int_step(8, 2048, 8),
                128,
                "hidden units of the value head and of each branch",
            )
        },
        ParamSchema {
            suggested: Some(Domain::Choice(vec![
                Value::Int(21),
                Value::Int(51),
                Value::Int(101),
            ])),
            ..structural(
                "model.atoms",
                int(2, 501),
                51,
                "atoms of the return distribution",
            )
        },
        structural(
            "model.state_width",
            int_step(0, 4096, 8),
            0,
            "width of the state, zero-padded; 0 takes the natural width rounded up to 8",
        ),
        ParamSchema {
            suggested: Some(float_on(1.0, 10.0, Scale::Log)),
            off: Some(Value::Float(0.0)),
            ..lane(
                "model.sigma_max",
                float(0.0, 1000.0),
                3.0,
                "largest spectral norm of a weight matrix; 0 for no spectral norm",
            )
        },
    ]
}

fn learning() -> Vec<ParamSchema> {
    vec![
        ParamSchema {
            suggested: Some(float_on(1.0, 50.0, Scale::Log)),
            ..lane(
                "model.v_max",
                float(1e-3, 1e6),
                10.0,
                "largest return the atoms can express; the smallest is its negative",
            )
        },
        ParamSchema {
            suggested: Some(float_on(0.9, 0.999, Scale::LogOneMinus)),
            ..lane("model.gamma", float(0.0, 0.99999), 0.99, "discount per bar")
        },
        ParamSchema {
            suggested: Some(int(1, 10)),
            ..lane_int(
                "model.n_step",
                int(1, 64),
                3,
                "bars of reward before bootstrapping",
            )
        },
        structural(
            "model.n_step_max",
            int(1, 64),
            10,
            "largest n_step that the replay is laid out for",
        ),
        ParamSchema {
            suggested: Some(switch()),
            ..param(
                "model.double",
                switch(),
                Value::Bool(true),
                "whether the online network selects the target's action",
            )
        },
        ParamSchema {
            suggested: Some(float_on(1e-4, 2e-2, Scale::Log)),
            ..lane(
                "model.tau",
                float(1e-6, 1.0),
                0.005,
                "share of the online weights that enters the target at each update",
            )
        },
    ]
}

fn exploration() -> Vec<ParamSchema> {
    vec![
        lane(
            "model.epsilon_start",
            float(0.0, 1.0),
            1.0,
            "share of random actions at the start",
        ),
        lane(
            "model.epsilon_end",
            float(0.0, 1.0),
            0.05,
            "share of random actions after the decay",
        ),
        ParamSchema {
            spans_run: true,
            ..lane(
                "model.epsilon_fraction",
                float(0.0, 1.0),
                0.25,
                "share of all updates over which the random actions decay",
            )
        },
    ]
}

fn optimizer() -> Vec<ParamSchema> {
    vec![
        ParamSchema {
            suggested: Some(float_on(1e-5, 3e-3, Scale::Log)),
            ..lane("train.lr", float(1e-10, 1.0), 1e-4, "learning rate")
        },
        lane(
            "train.beta1",
            float(0.0, 0.99999),
            0.9,
            "decay of Adam's first moment",
        ),
        lane(
            "train.beta2",
            float(0.0, 0.999_999),
            0.999,
            "decay of Adam's second moment",
        ),
        ParamSchema {
            suggested: Some(Domain::Choice(vec![
                Value::Float(1e-8),
                Value::Float(1.5e-4),
            ])),
            ..lane(
                "train.adam_eps",
                float(1e-12, 0.1),
                1e-8,
                "term added to Adam's denominator",
            )
        },
        ParamSchema {
            suggested: Some(float_on(1e-6, 1e-2, Scale::Log)),
            ..lane(
                "train.weight_decay",
                float(0.0, 1.0),
                0.0,
                "decoupled weight decay",
            )
        },
        ParamSchema {
            suggested: Some(float_on(0.1, 100.0, Scale::Log)),
            ..lane(
                "train.max_grad_norm",
                float(1e-6, 1e9),
                10.0,
                "global gradient norm above which gradients are scaled down",
            )
        },
    ]
}

fn loop_sizes() -> Vec<ParamSchema> {
    vec![
        ParamSchema {
            suggested: Some(Domain::Choice(vec![
                Value::Int(64),
                Value::Int(128),
                Value::Int(256),
                Value::Int(512),
            ])),
            ..structural(
                "train.batch_size",
                int(1, 8192),
                256,
                "transitions per update",
            )
        },
        structural(
            "train.environments",
            int(1, 4096),
            16,
            "copies of the market stepped together",
        ),
        structural(
            "train.updates_per_env_step",
            int(1, 256),
            4,
            "updates between two steps of all environments",
        ),
        structural(
            "train.steps_per_epoch",
            int(1, 10_000_000),
            2_500,
            "updates between two evaluations",
        ),
    ]
}

fn replay() -> Vec<ParamSchema> {
    vec![
        ParamSchema {
            suggested: Some(Domain::Int {
                low: 10_000,
                high: 100_000,
                scale: Scale::Log,
                step: None,
            }),
            ..lane_int(
                "train.replay_capacity",
                int(1, 10_000_000),
                100_000,
                "transitions kept",
            )
        },
        structural(
            "train.replay_capacity_max",
            int(1, 10_000_000),
            100_000,
            "transitions that memory is laid out for",
        ),
        lane_int(
            "train.replay_warmup",
            int(1, 10_000_000),
            1_000,
            "transitions before the first update; at least n_step_max + 1 steps of every environment",
        ),
    ]
}

fn reward() -> Vec<ParamSchema> {
    let kinds = ["pnl_over_sigma", "risk_adjusted"].map(|kind| Value::Text(kind.to_owned()));
    let [pnl_over_sigma, risk_adjusted] = kinds;
    vec![
        param(
            "train.reward",
            Domain::Choice(vec![pnl_over_sigma.clone(), risk_adjusted.clone()]),
            pnl_over_sigma,
            "what an action earns: profit in units of volatility, or the same less a risk penalty",
        ),
        ParamSchema {
            suggested: Some(float_on(0.01, 10.0, Scale::Log)),
            when: Some(When {
                name: "train.reward".to_owned(),
                values: vec![risk_adjusted],
            }),
            ..lane(
                "train.risk_lambda",
                float(0.0, 1000.0),
                1.0,
                "weight of half the squared return in the risk-adjusted reward",
            )
        },
    ]
}

/// The reference workload that every benchmark runs.
fn ref_dqn() -> Vec<(&'static str, Value)> {
    vec![
        ("model.trunk_width", Value::Int(256)),
        ("model.trunk_layers", Value::Int(2)),
        ("model.head_width", Value::Int(128)),
        ("model.atoms", Value::Int(51)),
        ("model.state_width", Value::Int(64)),
        ("model.v_max", Value::Float(10.0)),
        ("model.gamma", Value::Float(0.99)),
        ("model.n_step", Value::Int(1)),
        ("model.tau", Value::Float(0.005)),
        ("model.sigma_max", Value::Float(3.0)),
        ("train.lr", Value::Float(1e-4)),
        ("train.adam_eps", Value::Float(1e-8)),
        ("train.max_grad_norm", Value::Float(10.0)),
        ("train.batch_size", Value::Int(256)),
        ("train.replay_capacity", Value::Int(100_000)),
    ]
}

fn param(name: &'static str, legal: Domain, default: Value, doc: &'static str) -> ParamSchema {
    ParamSchema {
        name,
        legal,
        suggested: None,
        default,
        when: None,
        structural: false,
        off: None,
        spans_run: false,
        doc,
    }
}

fn lane(name: &'static str, legal: Domain, default: f64, doc: &'static str) -> ParamSchema {
    param(name, legal, Value::Float(default), doc)
}

fn lane_int(name: &'static str, legal: Domain, default: i64, doc: &'static str) -> ParamSchema {
    param(name, legal, Value::Int(default), doc)
}

fn structural(name: &'static str, legal: Domain, default: i64, doc: &'static str) -> ParamSchema {
    ParamSchema {
        structural: true,
        ..lane_int(name, legal, default, doc)
    }
}

fn switch() -> Domain {
    Domain::Choice(vec![Value::Bool(false), Value::Bool(true)])
}

fn float(low: f64, high: f64) -> Domain {
    float_on(low, high, Scale::Linear)
}

fn float_on(low: f64, high: f64, scale: Scale) -> Domain {
    Domain::Float {
        low,
        high,
        scale,
        step: None,
    }
}

fn int(low: i64, high: i64) -> Domain {
    Domain::Int {
        low,
        high,
        scale: Scale::Linear,
        step: None,
    }
}

fn int_step(low: i64, high: i64, step: i64) -> Domain {
    Domain::Int {
        low,
        high,
        scale: Scale::Linear,
        step: Some(step),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;

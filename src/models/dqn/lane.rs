//! What a run sets in its lane.

use super::settings::{Settings, rows_of};
use super::{Dqn, LaneStates};
use crate::engine::backend::{Data, StateValues};
use crate::engine::graph::{DType, Shape};
use crate::engine::program::{Init, Program};
use crate::engine::rng::{fill_uniform, stream_id};
use crate::models::{RunInput, count, number, text};
use crate::study::Params;

/// Declares the lane states.
pub(super) fn declare(program: &mut Program) -> LaneStates {
    let mut real = |name: &str| program.state(name, Shape::default(), DType::F32, Init::Host);
    let lr = real("train.lr");
    let beta1 = real("train.beta1");
    let beta2 = real("train.beta2");
    let adam_eps = real("train.adam_eps");
    let weight_decay = real("train.weight_decay");
    let max_grad_norm = real("train.max_grad_norm");
    let gamma = real("model.gamma");
    let tau = real("model.tau");
    let v_max = real("model.v_max");
    let sigma_max = real("model.sigma_max");
    let epsilon_start = real("model.epsilon_start");
    let epsilon_end = real("model.epsilon_end");
    let epsilon_updates = real("epsilon_updates");
    let risk_lambda = real("train.risk_lambda");
    let double = real("model.double");
    let mut whole = |name: &str| program.state(name, Shape::default(), DType::I32, Init::Host);
    let n_step = whole("model.n_step");
    let capacity_rows = whole("capacity_rows");
    let warmup_rows = whole("warmup_rows");
    let table_base = whole("table_base");
    let train_start = whole("train_start");
    let train_end = whole("train_end");
    let validation_start = whole("validation_start");
    let n_validation = whole("n_validation");
    let costs = program.state("costs", [4], DType::F64, Init::Host);
    LaneStates {
        lr,
        beta1,
        beta2,
        adam_eps,
        weight_decay,
        max_grad_norm,
        gamma,
        tau,
        v_max,
        sigma_max,
        epsilon_start,
        epsilon_end,
        epsilon_updates,
        risk_lambda,
        double,
        n_step,
        capacity_rows,
        warmup_rows,
        table_base,
        train_start,
        train_end,
        validation_start,
        n_validation,
        costs,
    }
}

// tidy: long, because it is the list of what a run sets.
/// Fills every state that the host gives.
pub(super) fn values(model: &Dqn, run: &RunInput<'_>) -> StateValues {
    let (states, lane) = (&model.states, &model.states.lane);
    let params = run.params;
    let mut values = StateValues::new();
    values.insert(
        states.theta,
        Data::F32(model.network.layout.initial(run.seed)),
    );
    if let Some([u, _]) = states.spectral {
        let (_, n_u, _) = model.network.layout.matrices();
        let mut draws = vec![0.0; n_u];
        fill_uniform(run.seed, 0, stream_id("initial.spectral_u"), &mut draws);
        draws.iter_mut().for_each(|draw| *draw -= 0.5);
        values.insert(u, Data::F32(draws));
    }
    let words = vec![run.seed as u32 as i32, (run.seed >> 32) as u32 as i32];
    values.insert(states.seed, Data::I32(words));

    let is_risk_adjusted = text(params, "train.reward") == "risk_adjusted";
    let risk_lambda = if is_risk_adjusted {
        number(params, "train.risk_lambda")
    } else {
        0.0
    };
    let epsilon_updates = number(params, "model.epsilon_fraction") * run.n_updates as f64;
    for (state, value) in [
        (lane.lr, number(params, "train.lr")),
        (lane.beta1, number(params, "train.beta1")),
        (lane.beta2, number(params, "train.beta2")),
        (lane.adam_eps, number(params, "train.adam_eps")),
        (lane.weight_decay, number(params, "train.weight_decay")),
        (lane.max_grad_norm, number(params, "train.max_grad_norm")),
        (lane.gamma, number(params, "model.gamma")),
        (lane.tau, number(params, "model.tau")),
        (lane.v_max, number(params, "model.v_max")),
        (lane.sigma_max, number(params, "model.sigma_max")),
        (lane.epsilon_start, number(params, "model.epsilon_start")),
        (lane.epsilon_end, number(params, "model.epsilon_end")),
        // Below one update the schedule is over at once; it never divides by zero.
        (lane.epsilon_updates, epsilon_updates.max(1.0)),
        (lane.risk_lambda, risk_lambda),
        (lane.double, number(params, "model.double")),
    ] {
        values.insert(state, Data::F32(vec![value as f32]));
    }
    let settings = &model.settings;
    let n_step = count(params, "model.n_step");
    assert!(
        n_step <= settings.n_step_max,
        "the sweep file was checked for this"
    );
    let rows = |name: &str| {
        rows_of(
            count(params, name),
            settings.environments,
            settings.n_step_max,
        )
    };
    for (state, value) in [
        (lane.n_step, n_step),
        (
            lane.capacity_rows,
            rows("train.replay_capacity").min(settings.replay_rows_max),
        ),
        (lane.warmup_rows, warmup_rows(params, settings)),
        (lane.table_base, run.fold * model.market.n_bars),
        (lane.train_start, run.train.start),
        (lane.train_end, run.train.end),
        (lane.validation_start, run.validation.start),
        (lane.n_validation, run.validation.len()),
    ] {
        let value = i32::try_from(value).expect("counts of bars and rows fit 32 bits");
        values.insert(state, Data::I32(vec![value]));
    }
    let costs = &run.costs;
    let costs = vec![costs.fee, costs.maker_fee, costs.half_spread, costs.impact];
    values.insert(lane.costs, Data::F64(costs));
    values
}

/// Rows that the replay holds before the first update: the warm-up asked for, and enough for one
/// sample of the longest n-step.
pub(super) fn warmup_rows(params: &Params, settings: &Settings) -> usize {
    let n_warmup = count(params, "train.replay_warmup");
    rows_of(n_warmup, settings.environments, settings.n_step_max)
}

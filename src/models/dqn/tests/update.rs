//! What an update may do, and what stops it.

use super::*;
use crate::models::EpochMetrics;

fn metrics(setup: &Setup, session: &dyn Session, lane: usize) -> EpochMetrics {
    setup.model.metrics(
        &session
            .read(LaneIdx(lane), setup.model.readout().metrics)
            .unwrap(),
    )
}

/// Weights after `n_cycles` cycles, of which the first four only collect.
fn weights(backend: &dyn Backend, double: f64, searched: &[&str], n_cycles: usize) -> Vec<f64> {
    let params = params("", &[("model.double", double), ("train.lr", 1e-2)]);
    let setup = Setup::new(market(Planted::new(400, 3)), params, searched);
    let mut session = setup.start(backend, DType::F32);
    session.train(n_cycles).unwrap();
    read(&*session, 0, setup.model.states.theta)
}

#[test]
fn with_the_target_as_selector_double_is_plain() {
    // The target starts as a copy of the weights, so they select the same in the first update.
    for backend in [&oracle() as &dyn Backend, &cpu()] {
        let after = |double, n_cycles| weights(backend, double, &[], n_cycles);
        assert!(after(1.0, 5) == after(0.0, 5));
        assert!(
            after(1.0, 4) != after(1.0, 5),
            "the fifth cycle is the first to learn"
        );
        assert!(after(1.0, 30) != after(0.0, 30), "later they differ");
    }
}

#[test]
fn a_switch_of_the_plan_equals_the_lane_s() {
    for double in [0.0, 1.0] {
        let fixed = weights(&cpu(), double, &[], 20);
        assert!(fixed == weights(&cpu(), double, &["model.double"], 20));
    }
}

#[test]
fn nothing_trains_before_the_replay_is_warm() {
    let setup = Setup::small(&[("train.replay_warmup", 64.0)]);
    let states = &setup.model.states;
    let mut session = setup.start(&cpu(), DType::F32);
    let learned = [
        states.theta,
        states.target,
        states.m,
        states.v,
        states.n_updates,
    ];
    let read_all = |session: &dyn Session| learned.map(|state| read(session, 0, state));
    let before = read_all(&*session);
    // 64 transitions are 16 rows; the row of a cycle is there for its own updates.
    session.train(15).unwrap();
    assert!(read_all(&*session) == before);
    let cold = metrics(&setup, &*session, 0);
    assert_eq!((cold.n_updates, cold.n_env_steps), (0, 32));
    assert!(cold.loss.is_nan());
    session.train(1).unwrap();
    assert_eq!(read(&*session, 0, states.n_updates), [1.0]);
    assert!(read(&*session, 0, states.theta) != before[0]);
}

#[test]
fn metrics_are_those_of_the_epoch() {
    let setup = Setup::small(&[]);
    let mut session = setup.start(&cpu(), DType::F32);
    session.train(12).unwrap();
    assert_eq!(metrics(&setup, &*session, 0).n_updates, 8);
    session.train(2).unwrap();
    let both = metrics(&setup, &*session, 0);
    let mut again = setup.start(&cpu(), DType::F32);
    again.train(12).unwrap();
    let each = [1, 1].map(|n| {
        again.train(n).unwrap();
        metrics(&setup, &*again, 0)
    });
    assert_eq!(both.n_updates, 2);
    for part in [
        |m: &EpochMetrics| m.loss,
        |m: &EpochMetrics| m.grad_norm,
        |m: &EpochMetrics| m.q_mean,
        |m: &EpochMetrics| m.td_error,
        |m: &EpochMetrics| m.edge_atom_mass,
    ] {
        let mean = f64::midpoint(part(&each[0]), part(&each[1]));
        // One rounding of an F32 sum.
        assert!((part(&both) - mean).abs() <= 1e-6 * mean.abs().max(0.1));
    }
    assert_eq!(both.q_max, each[0].q_max.max(each[1].q_max));
    assert!(both.loss > 0.0 && both.td_error > 0.0 && both.edge_atom_mass > 0.0);
}

/// Spectral norm of `w [rows, cols]` by 300 power iterations in F64.
fn spectral_norm(w: &[f64], cols: usize) -> f64 {
    let mut v: Vec<f64> = noise("v", cols, 1.0).into_iter().map(f64::from).collect();
    let mut sigma = 0.0;
    for _ in 0..300 {
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.iter_mut().for_each(|x| *x /= norm);
        let u: Vec<f64> = w
            .chunks(cols)
            .map(|row| row.iter().zip(&v).map(|(w, v)| w * v).sum())
            .collect();
        sigma = u.iter().map(|x| x * x).sum::<f64>().sqrt();
        v = vec![0.0; cols];
        for (row, u) in w.chunks(cols).zip(&u) {
            v.iter_mut().zip(row).for_each(|(v, w)| *v += w * u);
        }
    }
    sigma
}

#[test]
fn matrices_stay_below_the_spectral_bound() {
    // Initial weights lie in ±1/√fan_in: their norms reach 1.1 to 1.3, so 0.8 binds at once.
    let bound = 0.8;
    let norms = |sigma_max: f64, n_cycles: usize| -> Vec<f64> {
        let setup = Setup::small(&[("model.sigma_max", sigma_max), ("train.lr", 1e-3)]);
        let mut session = setup.start(&cpu(), DType::F32);
        session.train(n_cycles).unwrap();
        let theta = read(&*session, 0, setup.model.states.theta);
        let (matrices, _, _) = setup.model.layout().matrices();
        let part = |offset: usize, n: usize| &theta[offset..offset + n];
        matrices
            .iter()
            .map(|m| spectral_norm(part(m.offset, m.rows * m.cols), m.cols))
            .collect()
    };
    for n_cycles in [0, 200] {
        let norms = norms(bound, n_cycles);
        // Power iteration estimates from below: by 3.6 % at most after its first fifteen
        // iterations, where the two largest singular values of a matrix are nearly equal.
        assert!(
            norms.iter().all(|norm| *norm <= 1.05 * bound),
            "{n_cycles}: {norms:?}"
        );
        assert!(
            norms.iter().any(|norm| *norm > 0.97 * bound),
            "the bound binds: {norms:?}"
        );
    }
    assert!(
        norms(0.0, 200).iter().any(|norm| *norm > 1.2 * bound),
        "unbound they grow"
    );
}

#[test]
fn without_a_bound_there_is_no_spectral_norm() {
    let setup = Setup::small(&[("model.sigma_max", 0.0)]);
    let program = setup.model.program();
    assert!(program.state_named("spectral_u").is_none());
    for section in crate::engine::program::SECTIONS {
        for effect in program
            .section(section)
            .iter()
            .flat_map(|phase| &phase.effects)
        {
            assert!(!matches!(effect, Effect::SpectralNorm { .. }));
        }
    }
    assert!(
        Setup::small(&[])
            .model
            .program()
            .state_named("spectral_u")
            .is_some()
    );
}

#[test]
fn a_run_that_explodes_stops_and_spares_its_neighbour() {
    let setup = Setup::small(&[("model.sigma_max", 0.0)]);
    let states = &setup.model.states;
    // Far beyond what a sweep may say: one step overflows the next forward.
    let exploding = params("", &[("model.sigma_max", 0.0), ("train.lr", 1e20)]);
    for dtype in [DType::F32, DType::Bf16] {
        let mut alone = setup.start(&cpu(), dtype);
        alone.train(20).unwrap();
        let program = setup.model.program().with_precision(dtype, dtype);
        let mut session = setup.open(&cpu(), &program, 2);
        setup.load(&mut *session, 0, &setup.run(&exploding, 1));
        setup.load(&mut *session, 1, &setup.run(&setup.params, 7));
        session.train(10).unwrap();
        let frozen = [
            states.theta,
            states.target,
            states.m,
            states.v,
            states.n_updates,
        ];
        let read_all = |session: &dyn Session| frozen.map(|state| read(session, 0, state));
        let stopped = read_all(&*session);
        assert_eq!(read(&*session, 0, states.diverged), [1.0]);
        assert_eq!(stopped[4], [1.0], "one update exploded, none followed");
        session.train(10).unwrap();
        assert!(read_all(&*session) == stopped);
        assert_eq!(metrics(&setup, &*session, 0).n_updates, 0);
        // The neighbour ran two epochs where the other had one: only the metrics differ.
        assert!(read(&*session, 1, states.theta) == read(&*alone, 0, states.theta));
        assert_eq!(read(&*session, 1, states.diverged), [0.0]);
    }
}

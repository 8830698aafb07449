//! Whole steps in each precision against the F64 oracle.

use super::*;

/// Relative distances of loss and gradient that one step may have. Measured on the reference
/// workload: loss 7e-8, 1e-5, 3e-4; gradient 3e-7, 4e-4, 3e-3.
const STEP_GATES: [(DType, f64); 3] =
    [(DType::F32, 1e-5), (DType::Tf32, 2e-3), (DType::Bf16, 2e-2)];

/// Random actions all along, so that every arm meets the same transitions; no clipping, and a
/// first moment that is the gradient.
pub(in crate::models::dqn) const BARE: &[(&str, f64)] = &[
    ("model.epsilon_end", 1.0),
    ("train.beta1", 0.0),
    ("train.max_grad_norm", 1e9),
    ("train.replay_warmup", 1.0),
];

/// Makes one update on the replay and weights that `from` has reached; returns loss and gradient.
fn one_step(
    setup: &Setup,
    backend: &dyn Backend,
    dtype: DType,
    from: &dyn Session,
) -> (f64, Vec<f64>) {
    let mut program = setup.states_only();
    setup.model.begin_phase(&mut program);
    program.phase(Section::Cycle, "learn", 1, |program, b| {
        setup.model.learn(program, b)
    });
    let mut session = setup.open(backend, &program.with_precision(dtype, dtype), 1);
    setup.load(&mut *session, 0, &setup.run(&setup.params, 7));
    copy(from, &mut *session);
    session.train(1).unwrap();
    let metrics = session
        .read(LaneIdx(0), setup.model.states.metrics)
        .unwrap();
    (
        setup.model.metrics(&metrics).loss,
        read(&*session, 0, setup.model.states.m),
    )
}

/// Initial weights with biases that make every decision clear: a hidden unit is on or off whatever
/// the state, and the value of an action grows with its index.
///
/// Rectifier and greedy action are step functions. Near a step any rounding moves a whole unit's
/// gradient or a whole target, so that errors grow with the root of the rounding (measured on
/// initial weights: 1e-2 in tf32, 2e-2 in bf16), and no gate on rounding could hold.
fn decided(setup: &Setup, seed: u64) -> Vec<f32> {
    let layout = setup.model.layout();
    let atoms = setup.model.network.atoms;
    let mut block = layout.initial(seed);
    for entry in layout
        .entries()
        .iter()
        .filter(|entry| entry.name.ends_with("bias"))
    {
        let is_branch = entry.name.starts_with("branch");
        let of = |at: usize| match entry.name.contains("output") {
            true if is_branch => ((at / atoms) * (at % atoms)) as f32 / atoms as f32,
            true => 0.0,
            false => [4.0, -4.0][at % 2],
        };
        entry.insert(
            &mut block,
            &(0..entry.n_valid()).map(of).collect::<Vec<_>>(),
        );
    }
    block
}

pub(in crate::models::dqn) fn check_one_step(
    backend: &dyn Backend,
    params: Params,
    n_cycles: usize,
) {
    let setup = Setup::new(market(Planted::new(400, 3)), params, &[]);
    let mut from = setup.start(&cpu(), DType::F32);
    from.train(n_cycles).unwrap();
    for (state, seed) in [
        (setup.model.states.theta, 5),
        (setup.model.states.target, 6),
    ] {
        let weights = Data::F32(decided(&setup, seed));
        from.write(LaneIdx(0), state, &weights).unwrap();
    }
    let (loss, gradient) = one_step(&setup, &oracle(), DType::F32, &*from);
    assert!(loss > 0.1 && gradient.iter().any(|g| *g != 0.0));
    for (dtype, gate) in STEP_GATES {
        let (got_loss, got) = one_step(&setup, backend, dtype, &*from);
        let errors = ((got_loss / loss - 1.0).abs(), distance(&got, &gradient));
        assert!(
            errors.0 <= gate && errors.1 <= gate,
            "{dtype:?}: {errors:?}"
        );
    }
}

/// Loss of every update, and how far the weights went, over 100 updates.
fn hundred_steps(setup: &Setup, backend: &dyn Backend, dtype: DType) -> (Vec<f64>, Vec<f64>) {
    let states = &setup.model.states;
    let mut session = setup.start(backend, dtype);
    session.train(4).unwrap();
    assert_eq!(
        read(&*session, 0, states.n_updates),
        [0.0],
        "the replay is warm from row five on"
    );
    let first = read(&*session, 0, states.theta);
    let losses = (0..100)
        .map(|_| {
            session.train(1).unwrap();
            let metrics = session.read(LaneIdx(0), states.metrics).unwrap();
            setup.model.metrics(&metrics).loss
        })
        .collect();
    let last = read(&*session, 0, states.theta);
    (
        losses,
        last.iter()
            .zip(&first)
            .map(|(last, first)| last - first)
            .collect(),
    )
}

/// Measured on the reference workload: losses within 5e-7 and 4e-6, cosines 0.9998 and 0.9923.
pub(in crate::models::dqn) fn check_hundred_steps(backend: &dyn Backend, changes: &[(&str, f64)]) {
    let bare = [("model.epsilon_end", 1.0), ("train.replay_warmup", 1.0)];
    let params = params("ref-dqn", &[&bare, changes].concat());
    let setup = Setup::new(market(Planted::new(400, 3)), params, &[]);
    let (losses, moved) = hundred_steps(&setup, &oracle(), DType::F32);
    for (dtype, gate) in [(DType::F32, 1e-3), (DType::Bf16, 2e-2)] {
        let (got, got_moved) = hundred_steps(&setup, backend, dtype);
        assert!(got.iter().all(|loss| loss.is_finite()));
        let error = got
            .iter()
            .zip(&losses)
            .map(|(a, b)| (a / b - 1.0).abs())
            .fold(0.0, f64::max);
        let dot: f64 = got_moved.iter().zip(&moved).map(|(a, b)| a * b).sum();
        let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let cosine = dot / (norm(&got_moved) * norm(&moved));
        assert!(
            error <= gate && cosine >= 0.99,
            "{dtype:?}: {error:.1e}, {cosine}"
        );
    }
}

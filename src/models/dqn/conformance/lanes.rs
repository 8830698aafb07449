//! Packing changes no bit, and everything of a configuration is a lane value.

use super::*;

const N_RUNS: usize = 9;

/// Configurations of one plan that differ in every way that a lane may.
fn configurations(changes: &[(&str, f64)]) -> Vec<Params> {
    (0..N_RUNS)
        .map(|i| {
            let x = i as f64;
            let own = [
                ("model.gamma", 0.9 + 0.01 * x),
                ("model.n_step", 1.0 + x % 4.0),
                ("model.v_max", 2.0 + x),
                ("model.sigma_max", 0.7 + 0.2 * x),
                ("model.tau", 0.001 * (1.0 + x)),
                ("model.epsilon_start", 1.0 - 0.05 * x),
                ("train.lr", 1e-4 * (1.0 + x)),
                ("train.weight_decay", 1e-3 * x),
                ("train.max_grad_norm", 0.1 + x),
                ("train.replay_capacity", 32.0 + 4.0 * x),
                ("train.replay_warmup", 16.0 + 4.0 * (x % 3.0)),
            ];
            params("ref-dqn", &[changes, &own].concat())
        })
        .collect()
}

/// Two epochs of one run alone.
fn alone(
    backend: &dyn Backend,
    setup: &Setup,
    program: &Program,
    run: &RunInput<'_>,
    n_cycles: usize,
) -> Vec<Vec<u64>> {
    let mut session = setup.open(backend, program, 1);
    setup.load(&mut *session, 0, run);
    epochs(&mut *session, 2, n_cycles);
    bits(&*session, 0)
}

fn epochs(session: &mut dyn Session, n: usize, n_cycles: usize) {
    for _ in 0..n {
        session.train(n_cycles).unwrap();
        session.evaluate().unwrap();
    }
}

/// Runs packs of the given sizes: lane 0 is refilled after an epoch, the last but one of four or
/// more is poisoned, the last is dead.
pub(in crate::models::dqn) fn packs_equal_runs_alone(
    backend: &dyn Backend,
    changes: &[(&str, f64)],
    n_cycles: usize,
    sizes: &[usize],
) {
    let configurations = configurations(changes);
    let market = market(Planted::new(400, 3));
    let setup = Setup::new(market, configurations[0].clone(), &[]);
    let run = |i: usize| setup.run(&configurations[i], 100 + i as u64);
    for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
        let program = setup.model.program().with_precision(dtype, dtype);
        let alone: Vec<_> = (0..N_RUNS)
            .map(|i| alone(backend, &setup, &program, &run(i), n_cycles))
            .collect();
        assert!((1..N_RUNS).all(|i| alone[i] != alone[0]), "the runs differ");
        for &n in sizes {
            let of_lane = |lane: usize| (lane + n) % N_RUNS;
            let mut session = setup.open(backend, &program, n);
            for lane in 0..n {
                setup.load(&mut *session, lane, &run(of_lane(lane)));
            }
            let (poisoned, dead) = if n >= 4 {
                (Some(n - 2), Some(n - 1))
            } else {
                (None, None)
            };
            if let Some(lane) = poisoned {
                let theta = Data::F32(vec![f32::NAN; setup.model.layout().len()]);
                session
                    .write(LaneIdx(lane), setup.model.states.theta, &theta)
                    .unwrap();
            }
            let untouched = dead.map(|lane| {
                session.set_live(LaneIdx(lane), false);
                bits(&*session, lane)
            });
            // Lane 0 holds another run first.
            setup.load(
                &mut *session,
                0,
                &run(of_lane(0) + 1 - 2 * (of_lane(0) / 8)),
            );
            epochs(&mut *session, 1, n_cycles);
            setup.load(&mut *session, 0, &run(of_lane(0)));
            epochs(&mut *session, 1, n_cycles);
            for lane in (1..n).filter(|lane| ![poisoned, dead].contains(&Some(*lane))) {
                assert!(
                    bits(&*session, lane) == alone[of_lane(lane)],
                    "{dtype:?} {lane} of {n}"
                );
                session.set_live(LaneIdx(lane), false);
            }
            epochs(&mut *session, 1, n_cycles);
            assert!(
                bits(&*session, 0) == alone[of_lane(0)],
                "{dtype:?} refilled of {n}"
            );
            if let Some(lane) = poisoned {
                assert_eq!(read(&*session, lane, setup.model.states.diverged), [1.0]);
            }
            if let Some(lane) = dead {
                assert!(
                    Some(bits(&*session, lane)) == untouched,
                    "{dtype:?} dead of {n}"
                );
            }
        }
    }
}

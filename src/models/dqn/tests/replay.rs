//! Collection, the replay rings, and the batches drawn from them.

use super::*;
use crate::engine::env::{ACTION_SIZES, OBSERVED_WIDTH};
use crate::engine::rng::{fill_uniform, stream_id};

const N_ENV: usize = 4;
const SEED: u64 = 7;

/// A market wild enough to ruin accounts, with episodes of at most 40 bars.
fn wild(changes: &[(&str, f64)]) -> (Setup, Range<usize>) {
    let planted = Planted {
        sigma: 0.3,
        ..Planted::new(400, 3)
    };
    let setup = Setup::new(market(planted), params("", changes), &[]);
    let start = setup.market.folds[0].train.start;
    (setup, start..start + 40)
}

fn start(setup: &Setup, backend: &dyn Backend, train: &Range<usize>) -> Box<dyn Session> {
    let mut session = setup.open(backend, setup.model.program(), 1);
    let run = RunInput {
        train: train.clone(),
        ..setup.run(&setup.params, SEED)
    };
    setup.load(&mut *session, 0, &run);
    session
}

fn uniform(step: usize, stream: &str, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n];
    fill_uniform(
        SEED,
        u32::try_from(step).unwrap(),
        stream_id(stream),
        &mut out,
    );
    out.into_iter().map(f64::from).collect()
}

#[test]
fn no_index_leaves_the_train_range() {
    let (setup, train) = wild(&[("train.replay_capacity", 100.0)]);
    let states = &setup.model.states;
    let mut session = start(&setup, &cpu(), &train);
    let mut ends = BTreeSet::new();
    for cycle in 1..=150 {
        session.train(1).unwrap();
        let size = read(&*session, 0, states.ring.size)[0] as usize;
        assert_eq!(size, cycle.min(25), "100 transitions are 25 rows");
        let bars = &read(&*session, 0, states.ring.bar)[..size * N_ENV];
        // The next state is one bar on, and the return ends two bars on.
        assert_within(bars, &(train.start..train.end - 1), "stored");
        let next = read(&*session, 0, states.bar);
        assert_within(&next, &(train.start..train.end - 1), "to decide");
        let codes = read(&*session, 0, states.ring.end);
        ends.extend(codes[..size * N_ENV].iter().map(|code| *code as i32));
    }
    assert_eq!(
        ends,
        BTreeSet::from([0, 1, 2]),
        "no, terminal and timed ends all occur"
    );
}

/// The rings on the host, rows in the order of the ring.
struct Ring {
    bar: Vec<f64>,
    observed: Vec<f64>,
    next_observed: Vec<f64>,
    action: Vec<f64>,
    reward: Vec<f64>,
    end: Vec<f64>,
    head: usize,
    size: usize,
}

impl Ring {
    fn read(setup: &Setup, session: &dyn Session) -> Self {
        let ring = &setup.model.states.ring;
        let get = |state| read(session, 0, state);
        Self {
            bar: get(ring.bar),
            observed: get(ring.observed),
            next_observed: get(ring.next_observed),
            action: get(ring.action),
            reward: get(ring.reward),
            end: get(ring.end),
            head: get(ring.head)[0] as usize,
            size: get(ring.size)[0] as usize,
        }
    }
}

// tidy: long, because it follows a batch from uniforms to states as one story.
#[test]
fn batches_are_n_step_transitions_of_the_rings() {
    let (n, n_max, gamma, capacity) = (3, 4, 0.9, 25);
    let (setup, train) = wild(&[
        ("train.replay_capacity", 100.0),
        ("model.n_step", n as f64),
        ("model.gamma", gamma),
    ]);
    let model = &setup.model;
    let mut session = start(&setup, &oracle(), &train);
    let mut probe = Probe::new(&setup, &oracle(), DType::F32, |program, b| {
        let step = program.read(b, model.states.learn_step);
        let batch = model.sample(program, b, step);
        let actions = Dqn::stack(b, &batch.actions);
        vec![batch.x, batch.next_x, actions, batch.reward, batch.discount]
    });
    let features = setup.features(model.program()).to_f64();
    let width = setup.market.shape.feature_width;
    let n_features = setup.market.shape.n_features;
    let state_width = model.network.state_width;
    let (mut n_cut, mut n_terminal) = (0, 0);
    for _ in 0..8 {
        session.train(11).unwrap();
        let ring = Ring::read(&setup, &*session);
        probe.copy(&*session);
        let got = probe.compute();
        let step = read(&*session, 0, model.states.learn_step)[0] as usize;
        let oldest = (ring.head + capacity - ring.size) % capacity;
        let n_pairs = (ring.size + 1 - n_max) * N_ENV;
        for (row, u) in uniform(step, "learn.sample", 16).into_iter().enumerate() {
            let pair = (u * n_pairs as f64) as usize;
            let first = ((oldest + pair / N_ENV) % capacity) * N_ENV + pair % N_ENV;
            let (mut last, mut reward, mut discount) = (first, ring.reward[first], gamma);
            for _ in 1..n {
                if ring.end[last] != 0.0 {
                    n_cut += 1;
                    break;
                }
                let next = (last + N_ENV) % (capacity * N_ENV);
                assert_eq!(
                    ring.bar[next],
                    ring.bar[last] + 1.0,
                    "rows of an episode follow"
                );
                last = next;
                reward += discount * ring.reward[last];
                discount *= gamma;
            }
            if ring.end[last] == 1.0 {
                n_terminal += 1;
                discount = 0.0;
            }
            // γ is an F32 lane value; the sums are F64.
            assert!((got[3][row] - reward).abs() < 1e-6 * (1.0 + reward.abs()));
            assert!((got[4][row] - discount).abs() < 1e-6);
            let state = |bar: usize, observed: &[f64], at: usize| -> Vec<f64> {
                let features = &features[bar * width..bar * width + n_features];
                let observed = &observed[at * OBSERVED_WIDTH..(at + 1) * OBSERVED_WIDTH];
                [features, observed].concat()
            };
            let next_bar = ring.bar[last] as usize + 1;
            assert!(next_bar < train.end);
            let part = |x: &[f64]| x[row * state_width..(row + 1) * state_width].to_vec();
            assert_eq!(
                part(&got[0]),
                state(ring.bar[first] as usize, &ring.observed, first)
            );
            assert_eq!(part(&got[1]), state(next_bar, &ring.next_observed, last));
            assert_eq!(got[2][row * 3..][..3], ring.action[first * 3..][..3]);
        }
    }
    assert!(
        n_cut > 0 && n_terminal > 0,
        "{n_cut} cut, {n_terminal} terminal"
    );
}

#[test]
fn actions_follow_the_epsilon_schedule() {
    // 100 updates planned, half of them to decay from 0.9 to 0.1; weights that never move.
    let setup = Setup::small(&[
        ("model.epsilon_start", 0.9),
        ("model.epsilon_end", 0.1),
        ("model.epsilon_fraction", 0.5),
        ("train.lr", 0.0),
        ("model.sigma_max", 0.0),
    ]);
    let model = &setup.model;
    let mut session = setup.start(&cpu(), DType::F32);
    session.train(60).unwrap();
    let n_rows = 64;
    let mut probe = Probe::new(&setup, &cpu(), DType::F32, |program, b| {
        let bar = program.read(b, model.states.ring.bar);
        let bar = b.flatten(bar);
        let observed = program.read(b, model.states.ring.observed);
        let observed = b.reshape(observed, [n_rows * N_ENV, OBSERVED_WIDTH]);
        let x = model.state(program, b, bar, observed);
        let greedy = model.greedy(program, b, x);
        vec![Dqn::stack(b, &greedy)]
    });
    probe.copy(&*session);
    let greedy = probe.compute().remove(0);
    let ring = Ring::read(&setup, &*session);
    assert_eq!(ring.size, 60);
    let mut n_random = 0;
    for row in 0..60 {
        // Five rows warm the replay; the row of a cycle precedes its update.
        let n_updates = row.max(4) - 4;
        let epsilon = 0.9 - 0.8 * (n_updates as f64 / 50.0).min(1.0);
        let draws = uniform(row + 1, "collect.explore", N_ENV);
        let random: Vec<Vec<f64>> = (0..3)
            .map(|d| uniform(row + 1, &format!("collect.action.{d}"), N_ENV))
            .collect();
        for env in 0..N_ENV {
            let at = row * N_ENV + env;
            let explores = draws[env] < epsilon;
            n_random += usize::from(explores);
            for d in 0..3 {
                let drawn = (random[d][env] * ACTION_SIZES[d] as f64).floor();
                let expected = if explores { drawn } else { greedy[at * 3 + d] };
                assert_eq!(
                    ring.action[at * 3 + d],
                    expected,
                    "row {row}, environment {env}"
                );
            }
        }
    }
    // Mean ε is about 0.46 over 240 decisions, whose count deviates by 8.
    assert!((80..=145).contains(&n_random), "{n_random}");
}

//! What only a GPU can show: run on a machine with one, before kernels change hands.
//!
//!     cargo test --release --test gpu -- --ignored --test-threads 1
//!
//! `everything_passes` writes `tests/gpu/passed.json`; an ordinary test fails where kernels or the
//! CUDA backend have changed since.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod record;

use hyperopt::engine::backend::{Backend, LaneIdx};
use hyperopt::engine::conformance;
use hyperopt::engine::cuda::{self, Cuda};
use hyperopt::engine::graph::DType;
use hyperopt::engine::program::Section;
use hyperopt::models::dqn::conformance as dqn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ARMS: [DType; 3] = [DType::F32, DType::Tf32, DType::Bf16];

/// A check on one device.
type Check = (&'static str, fn(&Arc<Cuda>));

const CHECKS: &[Check] = &[
    (
        "every op, effect and random program against the oracle",
        suite,
    ),
    ("one update within the gates", |gpu| dqn::one_step(&**gpu)),
    ("a hundred updates within the gates", |gpu| {
        dqn::a_hundred_steps(&**gpu);
    }),
    (
        "packs of 1, 9 and 64 lanes equal runs alone after 1,000 updates",
        |gpu| {
            dqn::packs(&**gpu, 500, &[1, 9, 64]);
        },
    ),
    (
        "a training step is graph launches alone",
        steps_are_graph_launches,
    ),
    ("memory returns when sessions close", memory_returns),
];

#[test]
#[ignore = "needs a CUDA device"]
fn everything_passes() {
    let gpus = cuda::devices().unwrap();
    assert!(!gpus.is_empty(), "no GPU");
    for gpu in &gpus {
        for (name, check) in CHECKS {
            let began_at = std::time::Instant::now();
            check(gpu);
            eprintln!(
                "{}: {name}: passed in {:.1?}",
                gpu.class(),
                began_at.elapsed()
            );
        }
    }
    let passed: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    record::write(&*gpus[0], &passed);
}

/// Runs the suite of every backend, its parts side by side: compiling is most of their time.
fn suite(gpu: &Arc<Cuda>) {
    let next = AtomicU64::new(0);
    let n_threads = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part >= conformance::N_PARTS {
                        return;
                    }
                    conformance::run_part(&**gpu, part);
                }
            });
        }
    });
}

/// Counts the driver's calls of a thousand updates: graphs, and a few an epoch.
fn steps_are_graph_launches(gpu: &Arc<Cuda>) {
    const N_UPDATES: usize = 1_000;
    let (mut session, learn) = dqn::reference(&**gpu, DType::Bf16, 4);
    session.repeat(Section::Cycle, learn, N_UPDATES).unwrap();
    let before = gpu.calls();
    session.repeat(Section::Cycle, learn, N_UPDATES).unwrap();
    let after = gpu.calls();
    assert_eq!(after.launches, before.launches, "kernels outside graphs");
    assert_eq!(after.allocations, before.allocations, "allocations");
    let n_graphs = after.graph_launches - before.graph_launches;
    assert!(
        (1..=N_UPDATES as u64).contains(&n_graphs),
        "{n_graphs} graphs"
    );
    // Two events take the time, one wait ends the epoch, one read fetches faults; the host sleeps
    // now and then where it is far ahead.
    let n_others = after.others - before.others;
    assert!(n_others <= 8 + n_graphs / 4, "{n_others} other calls");
}

/// Opens and closes sessions; the device must hold as much as after the first.
fn memory_returns(gpu: &Arc<Cuda>) {
    let mut free = Vec::new();
    for _ in 0..20 {
        for dtype in ARMS {
            let (session, _) = dqn::reference(&**gpu, dtype, 8);
            let _ = session
                .read(LaneIdx(0), hyperopt::engine::op::StateId(0))
                .unwrap();
        }
        free.push(gpu.memory().unwrap().free_bytes);
    }
    assert!(free.iter().all(|bytes| *bytes == free[0]), "{free:?}");
}

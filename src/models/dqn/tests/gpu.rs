//! The same gates on every GPU of the machine.

use super::*;
use crate::engine::cuda;
use lanes::packs_equal_runs_alone;
use precision::{BARE, check_hundred_steps, check_one_step};

/// Compute capabilities that kernels are compiled for.
#[cfg(feature = "slow")]
const CAPABILITIES: [(u32, u32); 7] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

/// Compiles the reference workload without a GPU.
fn compiles(capabilities: &[(u32, u32)], n_lanes: usize) {
    let changes = [("train.batch_size", 256.0)];
    let setup = Setup::new(
        market(Planted::new(400, 3)),
        params("ref-dqn", &changes),
        &[],
    );
    for compiler in cuda::testing::compilers() {
        for &capability in capabilities {
            for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
                if capability.0 < 8 && dtype != DType::F32 {
                    continue;
                }
                let program = setup.model.program().with_precision(dtype, dtype);
                let plan = cuda::lower_for_gpu(&program);
                let target = cuda::emit::Target {
                    capability,
                    n_sm: 132,
                    n_lanes,
                };
                let usages = compiler
                    .compile(&plan, target)
                    .unwrap_or_else(|log| panic!("{log}"));
                assert!(usages.len() > 50, "{usages:?}");
                for usage in usages {
                    // Two blocks of products share the registers: a few addresses of their
                    // epilogues do not fit, nothing of their loops.
                    let spill_max = if usage.kernel.contains("product") {
                        256
                    } else {
                        0
                    };
                    let fits = usage.spill_bytes <= spill_max;
                    assert!(fits, "{capability:?} {dtype:?} {usage:?}");
                }
            }
        }
    }
}

#[test]
fn waves_of_the_reference_workload_read_what_was_written() {
    let setup = Setup::new(market(Planted::new(400, 3)), params("ref-dqn", &[]), &[]);
    for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
        let program = setup.model.program().with_precision(dtype, dtype);
        crate::engine::plan::check_memory(&cuda::lower_for_gpu(&program));
    }
}

#[test]
fn kernels_compile_for_the_newest_tested_architecture() {
    compiles(&[(9, 0)], 64);
}

#[test]
#[cfg(feature = "slow")]
fn kernels_compile_for_every_architecture() {
    compiles(&CAPABILITIES, 1);
}

#[test]
#[ignore = "needs a GPU"]
fn one_step_is_within_the_gates() {
    for gpu in cuda::devices().unwrap() {
        let changes = [BARE, &[("train.batch_size", 256.0)]].concat();
        check_one_step(&*gpu, params("ref-dqn", &changes), 100);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_hundred_steps_stay_together() {
    for gpu in cuda::devices().unwrap() {
        check_hundred_steps(&*gpu, &[("train.batch_size", 256.0)]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn packs_equal_runs_alone_in_small() {
    for gpu in cuda::devices().unwrap() {
        packs_equal_runs_alone(&*gpu, &[], 6, &[1, 2, 5, 9]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn packs_equal_runs_alone_on_the_reference_workload() {
    let full = [
        ("train.batch_size", 256.0),
        ("train.replay_capacity_max", 100_000.0),
    ];
    for gpu in cuda::devices().unwrap() {
        packs_equal_runs_alone(&*gpu, &full, 6, &[9, 64]);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn speed() {
    let changes = [
        ("train.batch_size", 256.0),
        ("train.environments", 16.0),
        ("train.replay_capacity", 100_000.0),
        ("train.replay_capacity_max", 100_000.0),
        ("train.replay_warmup", 1_000.0),
    ];
    let setup = Setup::new(
        market(Planted::new(3000, 3)),
        params("ref-dqn", &changes),
        &[],
    );
    let gpu = &cuda::devices().unwrap()[0];
    let only = std::env::var("SPEED").unwrap_or_default();
    for dtype in [DType::Bf16, DType::Tf32, DType::F32] {
        let program = setup.model.program().with_precision(dtype, dtype);
        for n_lanes in [1, 64] {
            if !format!("{dtype:?} {n_lanes}").contains(&only) {
                continue;
            }
            let began = std::time::Instant::now();
            let mut session = setup.open(&**gpu, &program, n_lanes);
            let opened = began.elapsed();
            for lane in 0..n_lanes {
                setup.load(
                    &mut *session,
                    lane,
                    &setup.run(&setup.params, 100 + lane as u64),
                );
            }
            let loaded = began.elapsed();
            session.train(100).unwrap();
            let cycle = session.plan().section(Section::Cycle).to_vec();
            for (i, phase) in cycle.iter().enumerate() {
                let n = if n_lanes == 1 { 2000 } else { 300 };
                session.repeat(Section::Cycle, i, n).unwrap();
                let mut times: Vec<f64> = (0..3)
                    .map(|_| {
                        session
                            .repeat(Section::Cycle, i, n)
                            .unwrap()
                            .device
                            .as_secs_f64()
                            / n as f64
                    })
                    .collect();
                times.sort_by(f64::total_cmp);
                println!(
                    "{dtype:?} {n_lanes} lanes {}: {} waves {:.1} us, {:.0} steps/s, {:.0} lane-steps/s; open {:.1} s load {:.1} s, {} MB a lane",
                    phase.name,
                    phase.waves.len(),
                    times[1] * 1e6,
                    1.0 / times[1],
                    n_lanes as f64 / times[1],
                    opened.as_secs_f64(),
                    loaded.as_secs_f64(),
                    session.plan().lane_bytes >> 20,
                );
            }
            if [1, 64].contains(&n_lanes) {
                let learn = cycle
                    .iter()
                    .position(|phase| phase.name == "learn")
                    .unwrap();
                let mut all = session.profile(Section::Cycle, learn, 20).unwrap();
                let total: f64 = all.iter().map(|x| x.1.as_secs_f64()).sum();
                println!("  launches {} sum {:.1} us", all.len(), total * 1e6);
                all.sort_by_key(|x| std::cmp::Reverse(x.1));
                for (name, time) in all.iter().take(28) {
                    println!("    {:.1} us {name}", time.as_secs_f64() * 1e6);
                }
            }
        }
    }
}

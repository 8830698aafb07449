//! What the CUDA backend makes of the reference workload, checked without a GPU.

use super::*;
use crate::engine::cuda;

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

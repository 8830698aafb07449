//! What the CUDA backend makes of the reference workload, checked without a GPU.

use super::*;
use crate::engine::cuda;
use crate::engine::cuda::emit::Target;
use crate::engine::cuda::testing::{Compiler, compilers};
use std::sync::Mutex;

/// Compute capabilities that kernels are compiled for.
#[cfg(feature = "slow")]
const CAPABILITIES: [(u32, u32); 7] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
/// Compilations at a time.
const N_THREADS: usize = 2;

/// Compiles the reference workload in every arm that an architecture knows; nothing may spill.
fn compiles(compilers: &[Compiler], capabilities: &[(u32, u32)], n_lanes: usize) {
    let mut work = Vec::new();
    for compiler in compilers {
        for &capability in capabilities {
            for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
                if capability.0 >= 8 || dtype == DType::F32 {
                    work.push((compiler, capability, dtype));
                }
            }
        }
    }
    let work = Mutex::new(work);
    let drain = || {
        loop {
            let Some((compiler, capability, dtype)) = work.lock().unwrap().pop() else {
                return;
            };
            let plan = cuda::lower_for_gpu(&reference_program(dtype));
            let target = Target {
                capability,
                n_sm: 132,
                n_lanes,
            };
            let label = format!(
                "NVRTC {:?}, {}, {dtype:?}",
                compiler.version(),
                target.arch()
            );
            let usages = compiler
                .compile(&plan, target)
                .unwrap_or_else(|log| panic!("{label}: {log}"));
            assert!(usages.len() > 50, "{label}: {usages:?}");
            for usage in usages {
                // Two blocks of products share the registers: a few addresses of their epilogues
                // do not fit, nothing of their loops.
                let spill_max = if usage.kernel.contains("product") {
                    256
                } else {
                    0
                };
                assert!(usage.spill_bytes <= spill_max, "{label}: {usage:?}");
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..N_THREADS).map(|_| scope.spawn(drain)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[test]
fn waves_of_the_reference_workload_read_what_was_written() {
    for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
        crate::engine::plan::check_memory(&cuda::lower_for_gpu(&reference_program(dtype)));
    }
}

#[test]
fn kernels_compile_for_the_architecture_that_was_run() {
    let newest = compilers().pop().unwrap();
    compiles(&[newest], &[(9, 0)], 64);
}

#[test]
#[cfg(feature = "slow")]
fn kernels_compile_for_every_architecture_with_both_compilers() {
    let compilers = compilers();
    assert!(compilers.len() >= 2, "NVRTC 12 and 13");
    compiles(&compilers, &CAPABILITIES, 1);
}

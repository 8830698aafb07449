//! The suite of every backend on every GPU of the machine.

use super::devices;
use crate::engine::conformance;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts run side by side: compiling is most of their time.
const N_THREADS: usize = 16;

#[test]
#[ignore = "needs a GPU"]
fn every_gpu_conforms() {
    for gpu in devices().unwrap() {
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..N_THREADS {
                scope.spawn(|| {
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed);
                        if part >= conformance::N_PARTS {
                            return;
                        }
                        conformance::run_part(&*gpu, part);
                        eprintln!("part {part} passed");
                    }
                });
            }
        });
    }
}

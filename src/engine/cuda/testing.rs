//! Compiling plans without a GPU, for tests.

use super::emit::{PRELUDE, Target, emit};
use super::nvrtc::Nvrtc;
use crate::engine::plan::Plan;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Digest of everything that decides what runs on a GPU: kernels, the code around them, and how
/// plans are made for it. Comments and indentation do not count.
pub fn source_digest() -> String {
    const OTHERS: [&str; 12] = [
        include_str!("cache.rs"),
        include_str!("driver.rs"),
        include_str!("mod.rs"),
        include_str!("nvrtc.rs"),
        include_str!("session.rs"),
        include_str!("emit/commit.rs"),
        include_str!("emit/gemm.rs"),
        include_str!("emit/mod.rs"),
        include_str!("emit/op.rs"),
        include_str!("emit/region.rs"),
        include_str!("../plan/lower.rs"),
        include_str!("../plan/schedule.rs"),
    ];
    let mut hash = Sha256::new();
    for text in PRELUDE.iter().map(|(_, text)| *text).chain(OTHERS) {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
            hash.update(line);
            hash.update("\n");
        }
    }
    digest_hex(&hash.finalize())
}

fn digest_hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A compiler of kernels, and what it says of each.
#[derive(Debug)]
pub struct Compiler {
    nvrtc: Nvrtc,
}

/// What a kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Name of the kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes that did not fit registers, stores and loads together.
    pub spill_bytes: u32,
}

/// Finds the compilers that `.ci/setup --dev` fetched.
///
/// # Panics
/// If there is none, or one cannot be loaded: the test that asks needs them.
pub fn compilers() -> Vec<Compiler> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"));
    let mut paths = Vec::new();
    find(&target.join("nvrtc"), &mut paths);
    paths.sort();
    assert!(
        !paths.is_empty(),
        "no compiler of kernels; run .ci/setup --dev"
    );
    let open = |path: &PathBuf| Compiler {
        nvrtc: Nvrtc::open(path).unwrap_or_else(|error| panic!("{error}")),
    };
    paths.iter().map(open).collect()
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            find(&path, paths);
        } else if name.to_string_lossy().starts_with("libnvrtc.so.") {
            paths.push(path);
        }
    }
}

impl Compiler {
    /// Returns the compiler's version.
    pub fn version(&self) -> (i32, i32) {
        self.nvrtc.version
    }

    /// Compiles a plan.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn compile(&self, plan: &Plan, target: Target) -> Result<Vec<Usage>, String> {
        let mut found = Vec::new();
        for source in &emit(plan, target).sources {
            let compiled = self.nvrtc.compile(source, &target.arch());
            let (_, log) = compiled.map_err(|error| error.to_string())?;
            found.extend(usages(&log));
        }
        Ok(found)
    }
}

/// Reads the assembler's report.
fn usages(log: &str) -> Vec<Usage> {
    let number_before = |line: &str, what: &str| -> u32 {
        let before = line.split(what).next().unwrap_or_default();
        let word = before.split_whitespace().last().unwrap_or_default();
        word.parse().unwrap_or(0)
    };
    let mut usages: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            usages.push(Usage {
                kernel: rest.split('\'').next().unwrap_or_default().to_owned(),
                registers: 0,
                spill_bytes: 0,
            });
        } else if let Some(last) = usages.last_mut() {
            if line.contains("bytes spill stores") {
                last.spill_bytes = number_before(line, " bytes spill stores")
                    + number_before(line, " bytes spill loads");
            } else if line.contains("registers") {
                last.registers = number_before(line, " registers");
            }
        }
    }
    usages
}

//! The rules of the tree that no compiler knows: layout, module direction, fences, sizes.
//!
//! An ordinary test. Each rule is a function from one file to faults, so that `samples` can show
//! that each can fail. A fault names file, line and remedy.

mod rules;
mod samples;
mod source;

use source::tracked_files;
use std::collections::BTreeSet;
use std::path::Path;

/// Which other modules a module may name. A row may list only rows above it.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("telemetry", &[]),
    ("study", &[]),
    ("spec", &["study"]),
    ("engine", &[]),
    ("market", &["engine"]),
    ("sampler", &["study", "spec"]),
    ("pruner", &["study", "spec"]),
    ("models", &["study", "engine", "market"]),
    ("store", &["study", "spec"]),
    ("executor", &["study", "engine", "market", "models"]),
    (
        "scheduler",
        &["study", "spec", "sampler", "pruner", "executor", "store"],
    ),
    ("report", &["study", "market", "store"]),
    ("dashboard", &["study", "store", "report"]),
    (
        "cli",
        &[
            "telemetry",
            "study",
            "spec",
            "engine",
            "market",
            "sampler",
            "pruner",
            "models",
            "store",
            "executor",
            "scheduler",
            "report",
            "dashboard",
        ],
    ),
];

/// What may lie at the top, besides dotfiles.
const TOP_LEVEL: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "kernels",
    "migrations",
    "src",
    "sweeps",
    "tests",
];

/// One broken rule, with its remedy.
#[derive(Debug, PartialEq)]
struct Fault {
    path: String,
    line: usize,
    message: String,
}

#[test]
fn the_tree_is_tidy() {
    let files = tracked_files(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(
        files.iter().any(|file| file.path == "src/lib.rs"),
        "the walk found no src/lib.rs among {} files",
        files.len()
    );
    let mut faults: Vec<Fault> = files.iter().flat_map(rules::all).collect();
    faults.extend(rules::top_level(&files));
    faults.extend(rules::migration_numbers(&files));
    faults.extend(rules::known_modules(&files));
    let listed: Vec<String> = faults
        .iter()
        .map(|fault| format!("{}:{}: {}", fault.path, fault.line, fault.message))
        .collect();
    assert!(listed.is_empty(), "\n{}\n", listed.join("\n"));
}

#[test]
fn module_rows_list_only_rows_above() {
    let mut above = BTreeSet::new();
    for (module, may_name) in MAY_NAME {
        for other in *may_name {
            assert!(above.contains(other), "{module} may not list {other}");
        }
        above.insert(*module);
    }
}

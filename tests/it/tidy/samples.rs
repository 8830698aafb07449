//! Each rule finds the fault in a small bad sample, and nothing in its good twin.

use super::Fault;
use super::rules;
use super::source::File;

/// Asserts that `text` at `path` breaks exactly one rule, on `line`, with `remedy` in the message.
fn finds(path: &str, text: &str, line: usize, remedy: &str) {
    check(&rules::all(&File::new(path, text)), path, line, remedy);
}

fn check(faults: &[Fault], path: &str, line: usize, remedy: &str) {
    let [fault] = faults else {
        panic!("expected one fault in {path}, got {faults:#?}");
    };
    assert_eq!(
        (fault.path.as_str(), fault.line),
        (path, line),
        "{}",
        fault.message
    );
    assert!(fault.message.contains(remedy), "{}", fault.message);
}

fn accepts(path: &str, text: &str) {
    assert_eq!(rules::all(&File::new(path, text)), Vec::new());
}

#[test]
fn module_direction() {
    finds(
        "src/engine/a.rs",
        "//! A.\nuse crate::study::Params;\n",
        2,
        "may not name `study`",
    );
    finds(
        "src/study/a.rs",
        "//! A.\nfn f() { crate::spec::g() }\n",
        2,
        "may not name `spec`",
    );
    let group = "//! A.\nuse crate::{study::{Params, store}, spec::x, cli as c};\n";
    finds("src/store/a.rs", group, 2, "may not name `cli`");
    finds(
        "src/store/mod.rs",
        "//! A.\n//!\n//! # Invariants\nuse super::cli;\n",
        4,
        "`super::`",
    );
    finds(
        "src/cli/a/b.rs",
        "//! A.\nuse super::super::super::store;\n",
        2,
        "`super::`",
    );
    accepts(
        "src/store/a.rs",
        "//! A.\nuse crate::{study::{Params, cli}, spec};\nuse super::x;\n",
    );
    accepts(
        "src/engine/a.rs",
        "//! Not crate::study.\n// crate::cli\nconst A: &str = \"crate::cli\";\n",
    );
}

#[test]
fn fences() {
    finds(
        "src/cli/a.rs",
        "//! A.\nuse sqlx::Row;\n",
        2,
        "only `store` holds SQL",
    );
    finds(
        "src/engine/cpu/a.rs",
        "//! A.\nuse cudarc::nvrtc;\n",
        2,
        "only `engine::cuda`",
    );
    finds(
        "src/store/a.rs",
        "//! A.\nfn f() { println!(\"x\") }\n",
        2,
        "only `cli` prints",
    );
    finds(
        "src/sampler/a.rs",
        "//! A.\nuse tokio::sync;\n",
        2,
        "synchronous",
    );
    finds(
        "src/pruner/a.rs",
        "//! A.\nfn f() { Instant::now(); }\n",
        2,
        "pass the time in",
    );
    finds(
        "src/market/a.rs",
        "//! A.\nfn f() { std::env::var(\"A\"); }\n",
        2,
        "environment",
    );
    accepts(
        "src/store/a.rs",
        "//! A.\nuse sqlx::Row;\nuse tokio::sync;\n",
    );
    accepts(
        "src/cli/a.rs",
        "//! A.\nfn f() { println!(\"{:?}\", Instant::now()) }\n",
    );
    accepts("tests/it/a.rs", "//! A.\nuse sqlx::Row;\n");
    accepts(
        "src/store/tests/a.rs",
        "//! A.\nfn f() { println!(\"x\") }\n",
    );
    finds(
        "src/store/a/tests.rs",
        "fn f() { cudarc::x() }\n",
        1,
        "only `engine::cuda`",
    );
}

#[test]
fn sizes() {
    let long_file = format!("//! A.\n{}", "// a\n".repeat(800));
    finds("src/cli/a.rs", &long_file, 801, "split the file");
    finds("kernels/a.cu", &"// a\n".repeat(301), 301, "split the file");
    let body = "    g();\n".repeat(69);
    let long_function = format!("fn f() {{\n{body}}}\n");
    finds(
        "src/cli/a.rs",
        &format!("//! A.\n{long_function}"),
        2,
        "71 lines, 70 at most",
    );
    let mark = "// tidy: long, because it is one table\n#[inline]\n";
    accepts("src/cli/a.rs", &format!("//! A.\n{mark}{long_function}"));
    let shorter = "    g(\"}\"); // }\n".repeat(68);
    accepts("src/cli/a.rs", &format!("//! A.\nfn f() {{\n{shorter}}}\n"));
}

#[test]
fn unfinished_work() {
    let comment = format!("//! A.\n// {}: later\n", concat!("TO", "DO"));
    finds("src/cli/a.rs", &comment, 2, "finish it");
    finds(
        "migrations/0001_a.sql",
        &format!("-- {}\n", concat!("FIX", "ME")),
        1,
        "finish it",
    );
    let call = format!("//! A.\nfn f() {{ {}() }}\n", concat!("to", "do!"));
    finds("src/cli/a.rs", &call, 2, "finish it");
    accepts("src/cli/a.rs", "//! A.\nconst TODOS: u8 = 1;\n");
}

#[test]
fn shape_of_modules() {
    finds(
        "src/engine/op/a.rs",
        "//! A.\nfn f(a: Op) { match a { _ => {} } }\n",
        2,
        "every variant",
    );
    accepts(
        "src/engine/op/a.rs",
        "//! A.\nfn f(a: P) { match a { (_, _) => {} } }\n",
    );
    accepts(
        "src/engine/op/tests.rs",
        "//! A.\nfn f(a: Op) { match a { _ => {} } }\n",
    );
    finds("src/cli/a.rs", "use std::fs;\n", 1, "open the file");
    finds("src/cli/a/mod.rs", "//! A.\n", 1, "# Invariants");
    finds("src/telemetry.rs", "//! A.\n", 1, "# Invariants");
    accepts(
        "src/cli/mod.rs",
        "//! A.\n//!\n//! # Invariants\n//! - None prints.\n",
    );
    finds(
        "tests/it/a.rs",
        "//! A.\n#[ignore = \"slow\"]\nfn f() {}\n",
        2,
        "behind `slow`",
    );
    accepts(
        "tests/gpu/a.rs",
        "//! A.\n#[ignore = \"needs a CUDA device\"]\nfn f() {}\n",
    );
}

#[test]
fn migrations_and_sweeps() {
    finds("migrations/1_a.sql", "-- Why.\n", 1, "NNNN_what.sql");
    finds(
        "migrations/0001_a.sql",
        "CREATE TABLE a ();\n",
        1,
        "says why",
    );
    let files = ["0001_a", "0003_b"].map(|name| File::new(&format!("migrations/{name}.sql"), "--"));
    check(
        &rules::migration_numbers(&files),
        "migrations/0003_b.sql",
        1,
        "number it 0002",
    );
    let header = "# Asks:    a?\n# Expects: b.\n# Costs:   c.\n";
    accepts("sweeps/a.toml", &format!("{header}[study]\nname = \"a\"\n"));
    accepts(
        "sweeps/a.toml",
        &format!("{header}[study]\nname = \"a_{{date}}\"\n"),
    );
    finds(
        "sweeps/b.toml",
        &format!("{header}[study]\nname = \"a\"\n"),
        1,
        "the file's stem: `b`",
    );
    let study = "[study]\nname = \"a\"\n";
    accepts(
        "sweeps/a.toml",
        &format!("# Asks: a?\n#   b?\n# Expects: c.\n# Costs: d.\n{study}"),
    );
    for header in [
        "# Asks: a?\n# Costs: c.\n# Expects: b.\n",
        "# Asks: a?\n# Costs: c.\n",
        "#\n# Asks: a?\n# Expects: b.\n# Costs: c.\n",
    ] {
        finds(
            "sweeps/a.toml",
            &format!("{header}{study}"),
            1,
            "in this order",
        );
    }
}

#[test]
fn machine_words() {
    let home = format!("see {}x\n", concat!("/ro", "ot/"));
    finds("README.md", &home, 1, "without this machine");
    finds(
        "README.md",
        &format!("a {}\n", concat!("work", "tree")),
        1,
        "without this machine",
    );
    finds(
        "README.md",
        &format!("as {} #12 says\n", concat!("iss", "ue")),
        1,
        "tracker's number",
    );
    accepts(
        "README.md",
        "the path net/work/x and an issue with 3 parts\n",
    );
}

#[test]
fn layout() {
    let files = [
        File::new("scripts/a.sh", ""),
        File::new(".ci/run", ""),
        File::new("LICENSE", ""),
    ];
    check(&rules::top_level(&files), "scripts/a.sh", 1, "move it");
    let unknown = [File::new("src/extra/mod.rs", "")];
    check(
        &rules::known_modules(&unknown),
        "src/extra/mod.rs",
        1,
        "MAY_NAME",
    );
    let lib = [File::new("src/lib.rs", "pub mod spec;\npub mod study;\n")];
    check(
        &rules::known_modules(&lib),
        "src/lib.rs",
        2,
        "order of MAY_NAME",
    );
}

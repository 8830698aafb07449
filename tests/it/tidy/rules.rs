//! The rules. Patterns are put together with `concat!`, so that this file keeps its own rules.

use super::source::File;
use super::{Fault, MAY_NAME, TOP_LEVEL};

const LINES_MAX_RUST: usize = 800;
const LINES_MAX_CUDA: usize = 300;
const FUNCTION_LINES_MAX: usize = 70;

/// Runs every rule that looks at one file.
pub(super) fn all(file: &File) -> Vec<Fault> {
    const RULES: &[fn(&File) -> Vec<Fault>] = &[
        module_direction,
        fences,
        file_length,
        function_length,
        unfinished,
        wildcard_arms,
        module_docs,
        ignored_tests,
        migration_header,
        sweep_header,
        machine_paths,
    ];
    RULES.iter().flat_map(|rule| rule(file)).collect()
}

fn fault(file: &File, line: usize, message: impl Into<String>) -> Fault {
    Fault {
        path: file.path.clone(),
        line,
        message: message.into(),
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets of `word` where it is not part of a longer identifier.
fn find_word(text: &str, word: &str) -> Vec<usize> {
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[*at + word.len()..].chars().next();
        !(before.is_some_and(is_word) || word.ends_with(is_word) && after.is_some_and(is_word))
    };
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(whole)
        .collect()
}

/// The module of `src` that a file belongs to; none for `lib.rs`, `main.rs` and other folders.
fn module_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let name = rest
        .split_once('/')
        .map_or_else(|| rest.strip_suffix(".rs"), |(name, _)| Some(name));
    name.filter(|name| !matches!(*name, "lib" | "main" | "build"))
}

/// The names behind `crate::`: one, or those of a group.
fn named_modules(after: &str) -> Vec<String> {
    let Some(group) = after.strip_prefix('{') else {
        return vec![after.chars().take_while(|c| is_word(*c)).collect()];
    };
    let (mut depth, mut name, mut names) = (0, String::new(), Vec::new());
    let mut in_path = false;
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                in_path = false;
            }
            c if depth == 0 && !name.is_empty() && !is_word(c) => in_path = true,
            c if depth == 0 && !in_path && is_word(c) => name.push(c),
            _ => {}
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

/// A module names only those that its row in `MAY_NAME` lists.
fn module_direction(file: &File) -> Vec<Fault> {
    let Some(module) = module_of(&file.path) else {
        return Vec::new();
    };
    let Some((_, may_name)) = MAY_NAME.iter().find(|(name, _)| *name == module) else {
        return Vec::new(); // `known_modules` reports it
    };
    let mut faults = Vec::new();
    for at in find_word(&file.code, "crate::") {
        for other in named_modules(file.code[at + "crate::".len()..].trim_start()) {
            let is_module = MAY_NAME.iter().any(|(name, _)| *name == other);
            if is_module && other != module && !may_name.contains(&other.as_str()) {
                let message = format!(
                    "`{module}` may not name `{other}`: move the code to a module that may \
                     (MAY_NAME in tests/it/tidy.rs), or pass the value in"
                );
                faults.push(fault(file, line_of(&file.code, at), message));
            }
        }
    }
    // As many `super::` as the file lies deep lead out of the module, past the rule above.
    let steps = file.path.matches('/').count();
    let depth = if file.path.ends_with("/mod.rs") {
        steps - 1
    } else {
        steps
    };
    let escape = "super::".repeat(depth);
    for at in find_word(&file.code, &escape) {
        let message = "`super::` leads out of the module: write `use crate::…`";
        faults.push(fault(file, line_of(&file.code, at), message));
    }
    faults
}

/// Words of outside crates, and where in `src` they may stand. `!` inverts: where they may not.
const FENCES: &[(&[&str], &[&str], &str)] = &[
    (
        &["sqlx"],
        &["src/store/"],
        "only `store` holds SQL: add a query there",
    ),
    (
        &["cudarc"],
        &["src/engine/cuda/"],
        "only `engine::cuda` names cudarc",
    ),
    (
        &["println!", "print!", "eprintln!", "eprint!", "stdout()"],
        &["src/cli/", "src/main.rs", "src/build.rs"],
        "only `cli` prints: return the value, or log through tracing",
    ),
    (
        &["tokio", "async", "await"],
        &[
            "!src/study/",
            "!src/spec/",
            "!src/engine/",
            "!src/market/",
            "!src/sampler/",
            "!src/pruner/",
            "!src/models/",
        ],
        "this module is synchronous: the scheduler waits, not it",
    ),
    (
        &["Instant::now", "SystemTime::now", "Utc::now", "Local::now"],
        &[
            "!src/study/",
            "!src/spec/",
            "!src/market/",
            "!src/sampler/",
            "!src/pruner/",
            "!src/models/",
        ],
        "no clock here: pass the time in",
    ),
    (
        &[
            "rand::rng",
            "rand::random",
            "thread_rng",
            "SysRng",
            "OsRng",
            "getrandom",
            "env::var",
        ],
        &[
            "!src/study/",
            "!src/spec/",
            "!src/market/",
            "!src/sampler/",
            "!src/pruner/",
            "!src/models/",
        ],
        "nothing in a result comes from the environment: pass a seed or a value in",
    ),
];

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn fences(file: &File) -> Vec<Fault> {
    if !file.path.starts_with("src/") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (words, places, remedy) in FENCES {
        if words.contains(&"println!") && is_test(&file.path) {
            continue;
        }
        let fenced_out = places.iter().any(|place| {
            place
                .strip_prefix('!')
                .is_some_and(|place| file.path.starts_with(place))
        });
        let only_elsewhere = places.iter().all(|place| !place.starts_with('!'))
            && !places.iter().any(|place| file.path.starts_with(place));
        if fenced_out || only_elsewhere {
            for word in *words {
                let hits = find_word(&file.code, word);
                faults.extend(hits.iter().map(|at| {
                    fault(
                        file,
                        line_of(&file.code, *at),
                        format!("`{word}`: {remedy}"),
                    )
                }));
            }
        }
    }
    faults
}

fn file_length(file: &File) -> Vec<Fault> {
    let lines_max = match file.path.rsplit('.').next() {
        Some("rs") => LINES_MAX_RUST,
        Some("cu" | "cuh") => LINES_MAX_CUDA,
        _ => return Vec::new(),
    };
    let n_lines = file.text.lines().count();
    if n_lines <= lines_max {
        return Vec::new();
    }
    let message = format!("{n_lines} lines, {lines_max} at most: split the file by topic");
    vec![fault(file, lines_max + 1, message)]
}

fn function_length(file: &File) -> Vec<Fault> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut faults = Vec::new();
    for at in find_word(&file.code, "fn ") {
        let named = file.code[at + 3..].starts_with(|c: char| c.is_alphabetic() || c == '_');
        let Some(body) = file.code[at..].find(['{', ';']).map(|offset| at + offset) else {
            continue;
        };
        if !named || file.code.as_bytes()[body] == b';' {
            continue;
        }
        let first = line_of(&file.code, at);
        let n_lines = line_of(&file.code, matching_brace(&file.code, body)) - first + 1;
        let above = lines[..first - 1]
            .iter()
            .rev()
            .map(|line| line.trim_start());
        let excused = above
            .take_while(|line| line.starts_with("//") || line.starts_with('#'))
            .any(|line| line.starts_with("// tidy: long, because "));
        if n_lines > FUNCTION_LINES_MAX && !excused {
            let message = format!(
                "function of {n_lines} lines, {FUNCTION_LINES_MAX} at most: split it, or write \
                 `// tidy: long, because …` above it"
            );
            faults.push(fault(file, first, message));
        }
    }
    faults
}

fn matching_brace(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return open + offset,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn unfinished(file: &File) -> Vec<Fault> {
    let is_source = [".rs", ".cu", ".cuh", ".sql", ".toml"]
        .iter()
        .any(|suffix| file.path.ends_with(suffix));
    if !is_source {
        return Vec::new();
    }
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
    ];
    let macros = [concat!("to", "do!"), concat!("unimple", "mented!")];
    let mut hits: Vec<(usize, &str)> = Vec::new();
    for mark in marks {
        hits.extend(
            find_word(&file.text, mark)
                .iter()
                .map(|at| (line_of(&file.text, *at), mark)),
        );
    }
    for mark in macros {
        hits.extend(
            find_word(&file.code, mark)
                .iter()
                .map(|at| (line_of(&file.code, *at), mark)),
        );
    }
    let message = |mark| format!("`{mark}`: finish it, or refuse the case with an error");
    hits.into_iter()
        .map(|(line, mark)| fault(file, line, message(mark)))
        .collect()
}

/// A new op must be a compile error wherever ops are told apart.
fn wildcard_arms(file: &File) -> Vec<Fault> {
    if !file.path.starts_with("src/engine/op/") || file.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let hits = find_word(&file.code, "_ =>");
    let message = "`_ =>` hides a new op from the compiler: name every variant";
    hits.iter()
        .map(|at| fault(file, line_of(&file.code, *at), message))
        .collect()
}

fn module_docs(file: &File) -> Vec<Fault> {
    if !file.path.ends_with(".rs") || file.path.ends_with("/tests.rs") {
        return Vec::new(); // the folder says what `tests.rs` tests
    }
    if !file.text.starts_with("//!") {
        return vec![fault(
            file,
            1,
            "open the file with `//!` and one sentence: what it is for",
        )];
    }
    let is_module = file.path.starts_with("src/")
        && !is_test(&file.path)
        && (file.path.ends_with("/mod.rs") || file.path.matches('/').count() == 1)
        && module_of(&file.path).is_some();
    let says = file.text.lines().take_while(|line| line.starts_with("//!"));
    if is_module
        && !says
            .into_iter()
            .any(|line| line.trim_end() == "//! # Invariants")
    {
        return vec![fault(
            file,
            1,
            "list what always holds here under `//! # Invariants`",
        )];
    }
    Vec::new()
}

fn ignored_tests(file: &File) -> Vec<Fault> {
    let allowed = "needs a CUDA device";
    let hits = file.code.match_indices("#[ignore");
    let bad = hits.filter(|(at, _)| {
        let line = file.text.lines().nth(line_of(&file.code, *at) - 1);
        !line.is_some_and(|line| line.contains(allowed))
    });
    let message = "only tests that need a CUDA device are ignored; slow ones go behind `slow`";
    bad.map(|(at, _)| fault(file, line_of(&file.code, at), message))
        .collect()
}

fn migration_header(file: &File) -> Vec<Fault> {
    let Some(name) = file.path.strip_prefix("migrations/") else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    if migration_number(name).is_none() {
        faults.push(fault(
            file,
            1,
            "name it NNNN_what.sql: sqlx skips other names in silence",
        ));
    }
    if !file.text.starts_with("--") {
        faults.push(fault(file, 1, "open the file with a comment that says why"));
    }
    faults
}

fn migration_number(name: &str) -> Option<usize> {
    let (number, what) = name.strip_suffix(".sql")?.split_once('_')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let well_formed = number.len() == 4 && !what.is_empty() && what.chars().all(plain);
    if well_formed {
        number.parse().ok()
    } else {
        None
    }
}

/// Migrations count from 0001 without a gap or a double.
pub(super) fn migration_numbers(files: &[File]) -> Vec<Fault> {
    let named = files.iter().filter_map(|file| {
        Some((
            file,
            migration_number(file.path.strip_prefix("migrations/")?)?,
        ))
    });
    let wrong = named
        .enumerate()
        .filter(|(idx, (_, number))| *number != idx + 1);
    let message = |expected: usize| format!("number it {expected:04}: they count without a gap");
    wrong
        .map(|(idx, (file, _))| fault(file, 1, message(idx + 1)))
        .collect()
}

/// What the opening comment of a sweep says, each on a line of its own or more.
const SWEEP_WORDS: [&str; 3] = ["# Asks:", "# Expects:", "# Costs:"];

fn sweep_header(file: &File) -> Vec<Fault> {
    let stem = file
        .path
        .strip_prefix("sweeps/")
        .and_then(|name| name.strip_suffix(".toml"));
    let Some(stem) = stem.filter(|stem| !stem.contains('/')) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let comment = file.text.lines().take_while(|line| line.starts_with('#'));
    let is_word = |line: &str| SWEEP_WORDS.iter().any(|word| line.starts_with(word));
    let words: Vec<&str> = comment.filter(|line| is_word(line)).collect();
    let in_order = words.len() == SWEEP_WORDS.len()
        && words
            .iter()
            .zip(SWEEP_WORDS)
            .all(|(line, word)| line.starts_with(word));
    if !in_order || !file.text.starts_with(SWEEP_WORDS[0]) {
        let message = format!(
            "open with the comments `{} …`, in this order",
            SWEEP_WORDS.join(" …`, `")
        );
        faults.push(fault(file, 1, message));
    }
    let parsed = toml::from_str::<toml::Table>(&file.text);
    let name = parsed
        .ok()
        .and_then(|table| Some(table.get("study")?.get("name")?.as_str()?.to_owned()));
    let plain = name
        .as_deref()
        .map(|name| name.trim_end_matches("{date}").trim_end_matches(['-', '_']));
    if plain != Some(stem) {
        faults.push(fault(
            file,
            1,
            format!("`study.name` is the file's stem: `{stem}`"),
        ));
    }
    faults
}

/// The tree knows neither the machine that it was written on nor a tracker's numbers.
fn machine_paths(file: &File) -> Vec<Fault> {
    let paths = [
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/Us", "ers/"),
        concat!("/tmp/", "wt"),
    ];
    let words = [
        concat!("work", "tree"),
        concat!("work", "place"),
        concat!("sand", "box"),
    ];
    let mut faults = Vec::new();
    for (idx, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        let starts_path = |(at, _): (usize, &str)| {
            !line[..at].ends_with(|c: char| is_word(c) || matches!(c, '.' | '-' | '}' | ')'))
        };
        let path = paths
            .iter()
            .find(|path| line.match_indices(**path).any(starts_path));
        let word = words.iter().find(|word| lower.contains(**word));
        if let Some(found) = path.or(word) {
            faults.push(fault(
                file,
                idx + 1,
                format!("`{found}`: say it without this machine"),
            ));
        }
        let numbered = |(at, word): (usize, &str)| {
            lower[at + word.len()..]
                .trim_start_matches([' ', '#'])
                .starts_with(|c: char| c.is_ascii_digit())
        };
        if lower.match_indices("issue").any(numbered) {
            faults.push(fault(
                file,
                idx + 1,
                "a tracker's number: say what it is about",
            ));
        }
    }
    faults
}

/// The top level is fixed.
pub(super) fn top_level(files: &[File]) -> Vec<Fault> {
    let bad = files.iter().filter(|file| {
        let top = file.path.split('/').next().unwrap_or_default();
        !top.starts_with('.') && !TOP_LEVEL.contains(&top)
    });
    let message = format!(
        "the top level holds {} and dotfiles: move it",
        TOP_LEVEL.join(", ")
    );
    bad.map(|file| fault(file, 1, message.clone())).collect()
}

/// Every module has a row in `MAY_NAME`, and `lib.rs` declares them in that order.
pub(super) fn known_modules(files: &[File]) -> Vec<Fault> {
    let place = |module: &str| MAY_NAME.iter().position(|(name, _)| *name == module);
    let mut faults = Vec::new();
    for file in files {
        if module_of(&file.path).is_some_and(|module| place(module).is_none()) {
            faults.push(fault(
                file,
                1,
                "give its module a row in MAY_NAME, tests/it/tidy.rs",
            ));
        }
    }
    let Some(lib) = files.iter().find(|file| file.path == "src/lib.rs") else {
        return faults;
    };
    let mut last = 0;
    for (idx, line) in lib.code.lines().enumerate() {
        let declared = line
            .strip_prefix("pub mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        if let Some(at) = declared.and_then(place) {
            if at < last {
                faults.push(fault(
                    lib,
                    idx + 1,
                    "declare modules in the order of MAY_NAME",
                ));
            }
            last = at;
        }
    }
    faults
}

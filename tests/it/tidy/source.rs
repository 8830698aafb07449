//! The files of the tree, and Rust text with comments and literals blanked out.

use std::path::Path;
use std::process::Command;

/// One text file of the tree.
pub(super) struct File {
    /// Path from the top, with `/`.
    pub(super) path: String,
    /// The whole text.
    pub(super) text: String,
    /// For Rust: the text with comments, strings and characters replaced by spaces, line for
    /// line. Empty for other files.
    pub(super) code: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let is_rust = path.ends_with(".rs");
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code: if is_rust {
                code_only(text)
            } else {
                String::new()
            },
        }
    }
}

/// Returns every text file that git tracks, or, outside a checkout, every one in the known
/// folders.
pub(super) fn tracked_files(top: &Path) -> Vec<File> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(top)
        .output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.split_terminator('\0').map(str::to_owned).collect()
        }
        _ => {
            let mut found = Vec::new();
            for folder in [
                ".ci",
                ".cargo",
                ".github",
                "kernels",
                "migrations",
                "src",
                "sweeps",
                "tests",
            ] {
                walk(top, folder, &mut found);
            }
            found.extend(["Cargo.toml", "LICENSE", "README.md"].map(str::to_owned));
            found
        }
    };
    paths.sort();
    let read = |path: &String| {
        let text = std::fs::read_to_string(top.join(path)).ok()?;
        Some(File::new(path, &text))
    };
    paths.iter().filter_map(read).collect()
}

fn walk(top: &Path, folder: &str, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(top.join(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            walk(top, &path, found);
        } else {
            found.push(path);
        }
    }
}

/// Replaces comments and literals by spaces; newlines stay.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = token_end(&chars, at);
        if end > at {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Returns the end of the comment or literal that starts at `at`, or `at` where none does.
fn token_end(chars: &[char], at: usize) -> usize {
    let next = |ahead: usize| chars.get(at + ahead).copied().unwrap_or(' ');
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next(1) == '/' => find(chars, at, |c| c[0] == '\n'),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        'r' if !after_word && matches!(next(1), '"' | '#') => raw_string_end(chars, at, 1),
        'b' if !after_word && next(1) == 'r' && matches!(next(2), '"' | '#') => {
            raw_string_end(chars, at, 2)
        }
        // A character, not a lifetime.
        '\'' if next(1) == '\\' => find(chars, at + 3, |c| c[0] == '\'') + 1,
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len())
        .find(|i| stop(&chars[*i..]))
        .unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        if chars[i..].starts_with(&['/', '*']) {
            depth += 1;
            i += 2;
        } else if chars[i..].starts_with(&['*', '/']) {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    i
}

fn string_end(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

fn raw_string_end(chars: &[char], at: usize, prefix: usize) -> usize {
    let hashes = chars[at + prefix..]
        .iter()
        .take_while(|c| **c == '#')
        .count();
    let open = at + prefix + hashes;
    if chars.get(open) != Some(&'"') {
        return at; // a raw identifier
    }
    let mut close = vec!['"'];
    close.extend(std::iter::repeat_n('#', hashes));
    let end = find(chars, open + 1, |c| c.starts_with(&close));
    (end + close.len()).min(chars.len())
}

#[test]
fn blanks_comments_and_literals_only() {
    let text = "let a = \"x\\\"y\"; // z\nlet b = r#\"q\"#; /* 1 /* 2 */ 3 */ let c: &'a str = f('\\'', 'd');";
    let code = code_only(text);
    assert_eq!(code.lines().count(), 2);
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "let a = ; let b = ; let c: &'a str = f( , );"
    );
}

//! Which column of a bar file is what.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::error::{MarketError, nearest};

/// A value of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Timestamp,
    Open,
    High,
    Low,
    Close,
    Volume,
}

const ROLES: [Role; 6] = [
    Role::Timestamp,
    Role::Open,
    Role::High,
    Role::Low,
    Role::Close,
    Role::Volume,
];

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Open => "open",
            Self::High => "high",
            Self::Low => "low",
            Self::Close => "close",
            Self::Volume => "volume",
        }
    }

    /// Header names that are tried where none is given.
    fn default_names(self) -> &'static [&'static str] {
        match self {
            Self::Timestamp => &["timestamp", "date", "datetime", "time"],
            Self::Open => &["open"],
            Self::High => &["high"],
            Self::Low => &["low"],
            Self::Close => &["close"],
            Self::Volume => &["volume"],
        }
    }
}

/// 0-based position of each role.
#[derive(Debug)]
pub(super) struct Columns([usize; ROLES.len()]);

impl Columns {
    pub(super) fn idx(&self, role: Role) -> usize {
        self.0[role as usize]
    }
}

/// The separator that the first line uses most: comma, semicolon or tab.
pub(super) fn delimiter(text: &str) -> u8 {
    let first = text.trim_start().lines().next().unwrap_or("");
    let count = |mark: u8| first.bytes().filter(|byte| *byte == mark).count();
    // `max_by_key` keeps the last of equals, so the comma comes last.
    [b'\t', b';', b',']
        .into_iter()
        .max_by_key(|mark| count(*mark))
        .unwrap_or(b',')
}

/// Finds every role in the header.
pub(super) fn find(
    path: &Path,
    header: &::csv::StringRecord,
    mapping: &BTreeMap<String, String>,
) -> Result<Columns, MarketError> {
    if let Some(key) = mapping
        .keys()
        .find(|key| ROLES.iter().all(|role| role.name() != key.as_str()))
    {
        return Err(MarketError::UnknownColumnKey {
            key: key.clone(),
            nearest: nearest(key, ROLES.iter().map(|role| role.name())),
        });
    }
    let mut found = [0; ROLES.len()];
    for role in ROLES {
        found[role as usize] = find_one(path, header, role, mapping.get(role.name()))?;
    }
    Ok(Columns(found))
}

fn find_one(
    path: &Path,
    header: &::csv::StringRecord,
    role: Role,
    mapped: Option<&String>,
) -> Result<usize, MarketError> {
    let position = |name: &str| -> Result<Option<usize>, MarketError> {
        // A name that the user wrote may tell two columns apart by case; a default name may not.
        let exact = positions(header, |column| mapped.is_some() && column == name);
        let matches = if exact.is_empty() {
            positions(header, |column| column.eq_ignore_ascii_case(name))
        } else {
            exact
        };
        match matches.as_slice() {
            [first, second, ..] => Err(MarketError::RepeatedColumn {
                path: path.to_owned(),
                name: name.to_owned(),
                first: first + 1,
                second: second + 1,
            }),
            [only] => Ok(Some(*only)),
            [] => Ok(None),
        }
    };
    let names: Vec<&str> = match mapped {
        Some(name) => vec![name.as_str()],
        None => role.default_names().to_vec(),
    };
    for name in &names {
        if let Some(idx) = position(name)? {
            return Ok(idx);
        }
    }
    Err(MarketError::MissingColumn {
        path: path.to_owned(),
        role: role.name(),
        wanted: names[0].to_owned(),
        nearest: nearest(names[0], header.iter()),
        headers: header.iter().map(|name| cut(name, 40)).take(20).collect(),
    })
}

fn positions(header: &::csv::StringRecord, is_match: impl Fn(&str) -> bool) -> Vec<usize> {
    header
        .iter()
        .enumerate()
        .filter(|(_, column)| is_match(column))
        .map(|(idx, _)| idx)
        .collect()
}

fn cut(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

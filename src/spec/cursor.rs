//! Typed, span-keeping access to a parsed TOML document.
//!
//! Every accessor notes its own fault and returns `None`, so that a reader goes on and several
//! faults are found in one pass.

use super::diagnostic::{Report, Span, nearest, quoted};
use crate::study::Value;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the document with its place and full name.
#[derive(Clone)]
pub(super) struct Item<'t> {
    /// Full name as people write it: `budget.epochs`.
    pub(super) name: String,
    /// Where the key stands.
    pub(super) key_span: Span,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Item<'t> {
    /// Returns where the value stands.
    pub(super) fn span(&self) -> Span {
        self.value.span()
    }

    fn kind(&self) -> &'static str {
        match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// Notes that the value has another type than the one wanted.
    pub(super) fn wrong_type(&self, report: &mut Report, wanted: &str, help: &str) {
        let title = format!("`{}` must be {wanted}", self.name);
        let label = format!("this is {}", self.kind());
        report.error(&self.span(), title, label, help);
    }

    /// Gives the item the name that people know it by.
    pub(super) fn named(&self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self.clone()
        }
    }

    pub(super) fn as_text(&self) -> Option<&'t str> {
        self.value.get_ref().as_str()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    pub(super) fn is_array(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// Reads a string.
    pub(super) fn text(&self, report: &mut Report) -> Option<&'t str> {
        let text = self.as_text();
        if text.is_none() {
            self.wrong_type(report, "a string", "write a text in quotes");
        }
        text
    }

    /// Reads a boolean.
    pub(super) fn boolean(&self, report: &mut Report) -> Option<bool> {
        let value = self.value.get_ref().as_bool();
        if value.is_none() {
            self.wrong_type(report, "`true` or `false`", "write it without quotes");
        }
        value
    }

    /// Reads a boolean, number or string as it stands.
    pub(super) fn scalar(&self, report: &mut Report) -> Option<Value> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(Value::Text(text.to_string())),
            DeValue::Boolean(value) => Some(Value::Bool(*value)),
            DeValue::Integer(digits) => {
                let value = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
                if value.is_none() {
                    let title = format!("`{}` does not fit in 64 bits", self.name);
                    let label = "too large";
                    let help = format!("integers go from {} to {}", i64::MIN, i64::MAX);
                    report.error(&self.span(), title, label, help);
                }
                value.map(Value::Int)
            }
            DeValue::Float(digits) => {
                let value = digits.as_str().parse::<f64>().ok();
                let finite = value.filter(|value| value.is_finite());
                if finite.is_none() {
                    let title = format!("`{}` must be a finite number", self.name);
                    report.error(&self.span(), title, "not finite", "write a finite number");
                }
                finite.map(Value::Float)
            }
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.wrong_type(
                    report,
                    "a boolean, number or string",
                    "write a single value",
                );
                None
            }
        }
    }

    /// Reads an integer; floats are refused, whole ones too.
    pub(super) fn int(&self, report: &mut Report) -> Option<i64> {
        if !self.value.get_ref().is_integer() {
            let help = match self.value.get_ref() {
                DeValue::Float(_) => "write it without a decimal point",
                DeValue::String(_) => "write it without quotes",
                _ => "write a number such as 16",
            };
            self.wrong_type(report, "an integer", help);
            return None;
        }
        self.scalar(report)?.as_int()
    }

    /// Reads an integer within bounds.
    pub(super) fn int_in(&self, bounds: RangeInclusive<i64>, report: &mut Report) -> Option<i64> {
        let value = self.int(report)?;
        if bounds.contains(&value) {
            return Some(value);
        }
        let (low, high) = (*bounds.start(), *bounds.end());
        let title = format!("`{}` is out of range", self.name);
        let label = format!("must be from {low} to {high}");
        let help = format!("the nearest is {}", value.clamp(low, high));
        report.error(&self.span(), title, label, help);
        None
    }

    /// Reads a 32-bit count within bounds.
    pub(super) fn count(&self, bounds: RangeInclusive<u32>, report: &mut Report) -> Option<u32> {
        let bounds = i64::from(*bounds.start())..=i64::from(*bounds.end());
        let value = self.int_in(bounds, report)?;
        Some(u32::try_from(value).expect("the bounds are 32-bit"))
    }

    /// Reads a finite number; integers are accepted.
    pub(super) fn float(&self, report: &mut Report) -> Option<f64> {
        match self.value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => self.scalar(report)?.as_f64(),
            _ => {
                self.wrong_type(report, "a number", "write a number such as 0.5");
                None
            }
        }
    }

    /// Reads a finite number within bounds.
    pub(super) fn float_in(&self, bounds: RangeInclusive<f64>, report: &mut Report) -> Option<f64> {
        let value = self.float(report)?;
        if bounds.contains(&value) {
            return Some(value);
        }
        let (low, high) = (*bounds.start(), *bounds.end());
        let title = format!("`{}` is out of range", self.name);
        let label = format!("must be from {low:?} to {high:?}");
        let help = format!("the nearest is {:?}", value.clamp(low, high));
        report.error(&self.span(), title, label, help);
        None
    }

    /// Reads a list; its elements bear the list's name.
    pub(super) fn list(&self, report: &mut Report) -> Option<Vec<Item<'t>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            self.wrong_type(report, "a list", "write it in brackets: […]");
            return None;
        };
        let items = array.iter().map(|value| Item {
            name: self.name.clone(),
            key_span: self.key_span.clone(),
            value,
        });
        Some(items.collect())
    }

    /// Reads a table.
    pub(super) fn table(&self, report: &mut Report) -> Option<Table<'t>> {
        let Some(entries) = self.value.get_ref().as_table() else {
            self.wrong_type(report, "a table", "write it in braces: { key = value }");
            return None;
        };
        Some(Table {
            name: self.name.clone(),
            span: self.key_span.clone(),
            entries: Some(entries),
            known: Vec::new(),
        })
    }

    /// Picks what a name stands for, refusing by name what is planned but not there yet.
    ///
    /// - `supported`: names and what they stand for.
    /// - `later`: names that later work adds.
    /// - `noun`: what the names are, in the singular.
    pub(super) fn pick<T: Clone>(
        &self,
        noun: &str,
        supported: &[(&'static str, T)],
        later: &[&'static str],
        report: &mut Report,
    ) -> Option<T> {
        let text = self.text(report)?;
        if let Some((_, value)) = supported.iter().find(|(name, _)| *name == text) {
            return Some(value.clone());
        }
        let names = || supported.iter().map(|(name, _)| *name);
        let list = format!("supported: {}", quoted(names()));
        if later.contains(&text) {
            let title = format!("{noun} `{text}` is not yet supported");
            report.error(&self.span(), title, "not yet supported", list);
            return None;
        }
        let help = match nearest(text, names().chain(later.iter().copied())) {
            Some(near) => format!("did you mean `{near}`? {list}"),
            None => list,
        };
        let title = format!("unknown {noun} `{text}`");
        report.error(&self.span(), title, format!("not a {noun}"), help);
        None
    }
}

/// A table that remembers which keys were asked for.
pub(super) struct Table<'t> {
    /// Full name, empty at the root.
    pub(super) name: String,
    /// Where its header or key stands.
    pub(super) span: Span,
    /// `None` for an optional section that was left out.
    entries: Option<&'t DeTable<'t>>,
    known: Vec<&'static str>,
}

impl<'t> Table<'t> {
    /// Opens the document.
    pub(super) fn root(document: &'t Spanned<DeTable<'t>>) -> Self {
        Self {
            name: String::new(),
            span: 0..0,
            entries: Some(document.get_ref()),
            known: Vec::new(),
        }
    }

    /// Looks a key up and counts it as known.
    pub(super) fn get(&mut self, key: &'static str) -> Option<Item<'t>> {
        self.known.push(key);
        self.items()
            .find(|(name, _)| *name == key)
            .map(|(_, item)| item)
    }

    /// Looks a key up that would be unknown here, so that its absence need not be mentioned.
    pub(super) fn get_if_present(&mut self, key: &'static str) -> Option<Item<'t>> {
        let is_present = self.items().any(|(name, _)| name == key);
        is_present.then(|| self.get(key)).flatten()
    }

    /// Reads a key that may be left out.
    pub(super) fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Item<'t>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).map_or(Some(default), |item| read(&item))
    }

    /// Looks a key up and notes its absence.
    pub(super) fn required(&mut self, key: &'static str, report: &mut Report) -> Option<Item<'t>> {
        let item = self.get(key);
        if item.is_none() {
            let name = self.full_name(key);
            let title = format!("`{name}` is missing");
            let label = format!("needs `{key}`");
            report.error(&self.span, title, label, format!("add `{key} = …` here"));
        }
        item
    }

    /// Opens a section that must be there.
    pub(super) fn section(&mut self, key: &'static str, report: &mut Report) -> Option<Table<'t>> {
        match self.get(key) {
            Some(item) => item.table(report),
            None => {
                let title = format!("section `[{key}]` is missing");
                report.error(
                    &(0..0),
                    title,
                    "not in this file",
                    format!("add a section `[{key}]`"),
                );
                None
            }
        }
    }

    /// Opens a section that may be left out.
    pub(super) fn section_or_empty(
        &mut self,
        key: &'static str,
        report: &mut Report,
    ) -> Option<Table<'t>> {
        match self.get(key) {
            Some(item) => item.table(report),
            None => Some(Table {
                name: key.to_owned(),
                span: 0..0,
                entries: None,
                known: Vec::new(),
            }),
        }
    }

    /// Iterates over keys and values in the order of the file, counting none as known.
    pub(super) fn items(&self) -> impl Iterator<Item = (&'t str, Item<'t>)> {
        let prefix = self.name.clone();
        self.entries.into_iter().flatten().map(move |(key, value)| {
            let name = if prefix.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{prefix}.{}", key.get_ref())
            };
            let key_span = key.span();
            (
                key.get_ref().as_ref(),
                Item {
                    name,
                    key_span,
                    value,
                },
            )
        })
    }

    /// Notes every key that was never asked for.
    pub(super) fn finish(self, report: &mut Report) {
        let unknown = self.items().filter(|(key, _)| !self.known.contains(key));
        for (key, item) in unknown {
            let place = if self.name.is_empty() {
                "at the top level".to_owned()
            } else {
                format!("in `[{}]`", self.name)
            };
            let help = match nearest(key, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("valid keys: {}", quoted(self.known.iter().copied())),
            };
            let title = format!("unknown key `{}`", item.name);
            report.error(&item.key_span, title, format!("not a key {place}"), help);
        }
    }

    fn full_name(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }
}

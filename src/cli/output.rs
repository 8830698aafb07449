//! Results on stdout: tables for people, JSON for programs.

use comfy_table::{Cell as TableCell, CellAlignment, ContentArrangement, LineStyle, TableStyle};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::io::{self, IsTerminal, Write};

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Nothing known: a dash in tables, `null` in JSON.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A count or an index.
    Int(i64),
    /// A number; tables show this many decimals, JSON all of them.
    Float(f64, usize),
    /// Words.
    Text(String),
    /// A structure: one line of JSON in tables.
    Json(serde_json::Value),
}

impl Cell {
    /// A float that may be missing; tables show `decimals`.
    pub(crate) fn float(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Self::Null, |value| Self::Float(value, decimals))
    }

    /// A time, as RFC 3339 in UTC to the second.
    pub(crate) fn time(value: Option<chrono::DateTime<chrono::Utc>>) -> Self {
        let text = |at: chrono::DateTime<chrono::Utc>| {
            at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
        };
        value.map_or(Self::Null, |at| Self::Text(text(at)))
    }

    fn display(&self) -> String {
        match self {
            Self::Null => "-".to_owned(),
            Self::Bool(value) => (if *value { "yes" } else { "no" }).to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Float(value, decimals) => format!("{value:.decimals$}"),
            Self::Text(text) => text.clone(),
            Self::Json(value) => value.to_string(),
        }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            // JSON has no NaN and no infinity.
            Self::Float(value, _) if !value.is_finite() => serializer.serialize_none(),
            Self::Float(value, _) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Json(value) => value.serialize(serializer),
        }
    }
}

/// Rows under named columns. The names are the keys of the JSON and stay stable.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Starts a table without rows.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Appends a row, one cell a column.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "one cell a column");
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table, on a terminal with a rule under the header. Numbers stand right.
    fn render(&self, is_terminal: bool) -> String {
        let rule = LineStyle::none().fill('─');
        let mut table = comfy_table::Table::new();
        table.load_style(if is_terminal {
            TableStyle::new().header_separator(rule)
        } else {
            TableStyle::new()
        });
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(TableCell::new));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| TableCell::new(cell.display())));
        }
        for (idx, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            let mut cells = self.rows.iter().map(|row| &row[idx]);
            if cells.all(|cell| matches!(cell, Cell::Int(_) | Cell::Float(..) | Cell::Null)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

struct JsonRow<'a>(&'a [&'static str], &'a [Cell]);

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, cell) in self.0.iter().zip(self.1) {
            map.serialize_entry(name, cell)?;
        }
        map.end()
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| JsonRow(&self.columns, row)))
    }
}

/// The results of one command, on their way to stdout.
///
/// Whoever reads may leave early (`| head`): that surfaces as [`io::ErrorKind::BrokenPipe`],
/// which `cli::run` takes for a normal end.
pub(crate) struct Output {
    writer: Box<dyn Write>,
    is_terminal: bool,
    is_json: bool,
}

impl Output {
    /// Writes to stdout, as JSON on request.
    pub(crate) fn stdout(is_json: bool) -> Self {
        Self {
            writer: Box::new(io::stdout()),
            is_terminal: io::stdout().is_terminal(),
            is_json,
        }
    }

    /// Whether the reader is a program.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints `table`, or as JSON an array of objects, one a row.
    ///
    /// - `empty`: the sentence that stands for a table without rows; not printed in JSON.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn table(&mut self, table: &Table, empty: &str) -> io::Result<()> {
        if self.is_json {
            serde_json::to_writer_pretty(&mut self.writer, table)?;
            writeln!(self.writer)
        } else if table.is_empty() {
            self.line(empty)
        } else {
            writeln!(self.writer, "{}", table.render(self.is_terminal))
        }
    }

    /// Prints a line of text.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.writer, "{text}")
    }
}

#[cfg(test)]
mod tests;

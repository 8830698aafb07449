//! Results on stdout: tables for people, JSON for programs.

use super::error::CliError;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// Decimals of a number in a table; JSON has all of them.
const DECIMALS: usize = 4;

/// The results of one command, on their way to stdout.
///
/// Rows are structures; the names of their fields are the columns, and the keys of the JSON.
/// Whoever reads may leave early (`| head`): that surfaces as [`io::ErrorKind::BrokenPipe`], which
/// `cli::run` takes for a normal end.
pub(crate) struct Output {
    writer: Box<dyn Write + Send>,
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

    /// Prints a table, or as JSON an array with every field of every row.
    ///
    /// - `shown`: fields that make the columns of the table, in this order.
    /// - `empty`: the sentence that stands for a table without rows; not printed in JSON.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(crate) fn table<T: Serialize>(
        &mut self,
        rows: &[T],
        shown: &[&str],
        empty: &str,
    ) -> Result<(), CliError> {
        if self.is_json {
            self.json(rows)
        } else if rows.is_empty() {
            self.line(empty)
        } else {
            self.line(&render_table(rows, shown, self.is_terminal))
        }
    }

    /// Prints each row as lines of name and value, for rows too wide for a table; JSON as ever.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(crate) fn records<T: Serialize>(
        &mut self,
        rows: &[T],
        shown: &[&str],
        empty: &str,
    ) -> Result<(), CliError> {
        if self.is_json {
            self.json(rows)
        } else if rows.is_empty() {
            self.line(empty)
        } else {
            self.line(&render_records(rows, shown))
        }
    }

    /// Prints a line of text.
    ///
    /// # Errors
    /// [`CliError::Output`].
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CliError> {
        Ok(writeln!(self.writer, "{text}")?)
    }

    fn json<T: Serialize>(&mut self, rows: &[T]) -> Result<(), CliError> {
        // Rows are plain data, so that only writing can fail.
        serde_json::to_writer_pretty(&mut self.writer, rows).map_err(io::Error::from)?;
        self.line("")
    }
}

/// Renders rows under a header, on a terminal with a rule between them. Numbers stand right.
fn render_table<T: Serialize>(rows: &[T], shown: &[&str], is_terminal: bool) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(if is_terminal {
        TableStyle::new().header_separator(LineStyle::none().fill('─'))
    } else {
        TableStyle::new()
    });
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(shown);
    let rows: Vec<Vec<Value>> = rows.iter().map(|row| fields(row, shown)).collect();
    for row in &rows {
        let cells = shown.iter().zip(row);
        table.add_row(cells.map(|(name, value)| display(name, value)));
    }
    for (idx, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if rows
            .iter()
            .all(|row| row[idx].is_number() || row[idx].is_null())
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn render_records<T: Serialize>(rows: &[T], shown: &[&str]) -> String {
    let width = shown.iter().map(|name| name.len()).max().unwrap_or(0);
    let record = |row: &T| {
        let lines = shown.iter().zip(fields(row, shown));
        let lines = lines.map(|(name, value)| format!("{name:width$}  {}", display(name, &value)));
        lines.collect::<Vec<_>>().join("\n")
    };
    rows.iter().map(record).collect::<Vec<_>>().join("\n\n")
}

/// Returns the fields `shown` of a row, in that order.
fn fields<T: Serialize>(row: &T, shown: &[&str]) -> Vec<Value> {
    let row = serde_json::to_value(row).expect("rows are plain data");
    let field = |name: &&str| {
        let found = row.get(name);
        found
            .unwrap_or_else(|| panic!("no field {name} in {row}"))
            .clone()
    };
    shown.iter().map(field).collect()
}

/// Renders a field for people.
fn display(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(value) => (if *value { "yes" } else { "no" }).to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.DECIMALS$}"),
            Some(_) | None => number.to_string(),
        },
        // A time: to the second is enough for people.
        Value::String(text) if name.ends_with("_at") && text.len() > 19 => {
            format!("{}Z", &text[..19])
        }
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items = items.iter().map(|item| display("", item));
            items.collect::<Vec<_>>().join(" ")
        }
        // Parameters keep every digit: people copy them into sweep files.
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests;

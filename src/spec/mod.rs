//! Sweep files: TOML to a valid [`StudySpec`], or every fault with its place and remedy.
//!
//! # Invariants
//! - Strict: a key that means nothing, or would do nothing, is an error, never ignored.
//! - Several faults are found in one pass; reading never panics, whatever the text.
//! - Models are known only through the catalogue of schemas that the caller passes in.
//! - Nothing in a spec comes from the environment: no clock, no variables, no machine.
//! - Only here do spans into the sweep file exist; a [`StudySpec`] is plain data.

mod check;
mod condition;
mod cursor;
mod data;
mod diagnostic;
mod document;
mod enqueue;
mod identity;
mod params;
mod range;
mod render;
mod running;
mod space;
mod study;
#[cfg(test)]
mod tests;
mod types;

pub use diagnostic::{Diagnostic, Diagnostics, Span};
pub use identity::{Change, changes, digest};
pub use render::render;
pub use study::{check_name, expand_date};
pub use types::{
    Arm, BarLength, BudgetSpec, Calendar, CostSpec, DataSource, DataSpec, Devices, EvaluateIn,
    ExecutorsSpec, MarketSpec, PrecisionSpec, PrunerKind, SamplerKind, SchedulerSpec, SpaceParam,
    SplitSpec, StudySpec, TrainWindow,
};

use crate::study::ModelSchema;
use diagnostic::Report;
use std::path::Path;
use toml::de::DeTable;

/// Reads a sweep file.
///
/// - `path`: of the file; its stem must be the study's name, and diagnostics show it. Nothing is
///   opened.
/// - `catalogue`: every model kind.
///
/// # Errors
/// [`Diagnostics`] with every fault found; the caller renders them and exits with 2.
pub fn parse(text: &str, path: &Path, catalogue: &[ModelSchema]) -> Result<StudySpec, Diagnostics> {
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let mut report = Report::default();
    for error in &syntax_errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let help = "mend the syntax; the meaning is read after that";
        report.error(&span, "this is not TOML", error.message(), help);
    }
    let spec = if syntax_errors.is_empty() {
        document::read(&document, path, catalogue, &mut report)
    } else {
        None
    };
    match spec {
        Some(spec) if report.is_empty() => Ok(spec),
        _ => {
            assert!(!report.is_empty(), "a spec is missing only after a fault");
            let path = path.display().to_string();
            Err(Diagnostics::new(path, text, report.into_items()))
        }
    }
}

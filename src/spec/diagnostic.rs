//! What is wrong with a sweep file, where, and how to mend it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// Bytes of the sweep file.
pub type Span = Range<usize>;

/// One fault of a sweep file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, naming the key.
    pub title: String,
    /// The offending text.
    pub span: Span,
    /// What is wrong with that text.
    pub label: String,
    /// Another place that matters, and why.
    pub related: Option<(Span, String)>,
    /// How to mend it.
    pub help: String,
}

/// Every fault found in one pass over a sweep file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is not a valid sweep: {} error(s)", items.len())]
pub struct Diagnostics {
    path: String,
    text: String,
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(super) fn new(path: String, text: &str, mut items: Vec<Diagnostic>) -> Self {
        for item in &mut items {
            item.span = clamp(text, &item.span);
            if let Some((span, _)) = &mut item.related {
                *span = clamp(text, span);
            }
        }
        items.sort_by_key(|item| (item.span.start, item.span.end));
        Self {
            path,
            text: text.to_owned(),
            items,
        }
    }

    /// Returns the faults in the order of the file.
    pub fn items(&self) -> &[Diagnostic] {
        &self.items
    }

    /// Returns the 1-based line and column, in characters, where a fault begins.
    pub fn position(&self, item: &Diagnostic) -> (usize, usize) {
        let before = &self.text[..item.span.start];
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before[line_start..].chars().count() + 1)
    }

    /// Renders every fault in rustc's look.
    ///
    /// - `color`: with terminal colours; without, the text is the same everywhere.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let rendered = self
            .items
            .iter()
            .map(|item| renderer.render(&[self.group(item)]))
            .collect::<Vec<_>>();
        rendered.join("\n\n")
    }

    fn group<'a>(&'a self, item: &'a Diagnostic) -> Group<'a> {
        let mut snippet = Snippet::source(&self.text).path(&self.path).annotation(
            AnnotationKind::Primary
                .span(item.span.clone())
                .label(&item.label),
        );
        if let Some((span, label)) = &item.related {
            snippet = snippet.annotation(AnnotationKind::Context.span(span.clone()).label(label));
        }
        Level::ERROR
            .primary_title(&item.title)
            .element(snippet)
            .element(Level::HELP.message(&item.help))
    }
}

/// Collects faults while a file is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    items: Vec<Diagnostic>,
}

impl Report {
    /// Notes a fault and returns it, so that a related place can be added.
    pub(super) fn error(
        &mut self,
        span: &Span,
        title: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> &mut Diagnostic {
        self.items.push(Diagnostic {
            title: title.into(),
            span: span.clone(),
            label: label.into(),
            related: None,
            help: help.into(),
        });
        self.items.last_mut().expect("an item was just pushed")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn into_items(self) -> Vec<Diagnostic> {
        self.items
    }
}

/// Names the candidate nearest to `name`, if one is near enough to be a slip of the pen.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Lists names in backquotes.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Moves a span inside the text and onto character boundaries.
fn clamp(text: &str, span: &Span) -> Span {
    let start = floor(text, span.start);
    let end = floor(text, span.end.max(start));
    start..end
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)
    }
}

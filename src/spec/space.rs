//! Section `[space]`.

use super::condition;
use super::cursor::{Item, Table};
use super::diagnostic::{Report, Span};
use super::params::{Fixed, find};
use super::range::read_range;
use crate::study::{Domain, ParamSchema, When};

/// A searched parameter while its file is at hand.
pub(super) struct Searched<'c> {
    pub(super) schema: &'c ParamSchema,
    pub(super) domain: Domain,
    pub(super) when: Option<When>,
    pub(super) key_span: Span,
    pub(super) when_span: Option<Span>,
}

/// The space while its file is at hand.
pub(super) struct Space<'c> {
    /// What is searched, sorted by name: the order in the file means nothing.
    pub(super) params: Vec<Searched<'c>>,
    /// Every name that the section lists, those with faults included.
    listed: Vec<String>,
}

impl<'c> Space<'c> {
    /// Looks a searched parameter up.
    pub(super) fn get(&self, name: &str) -> Option<&Searched<'c>> {
        self.params.iter().find(|param| param.schema.name == name)
    }

    /// Decides whether a parameter is listed with a fault, so that nothing more can be said of it.
    pub(super) fn is_faulty(&self, name: &str) -> bool {
        self.get(name).is_none() && self.listed.iter().any(|listed| listed == name)
    }
}

/// Reads the space and settles its conditions.
pub(super) fn read<'c>(table: &Table<'_>, fixed: &Fixed<'c>, report: &mut Report) -> Space<'c> {
    let mut params: Vec<_> = table
        .items()
        .filter_map(|(key, item)| read_param(key, &item.named(key), fixed, report))
        .collect();
    params.sort_by_key(|param| param.schema.name);
    let mut space = Space {
        params,
        listed: table.items().map(|(key, _)| key.to_owned()).collect(),
    };
    condition::resolve(fixed, &mut space, report);
    space
}

fn read_param<'c>(
    key: &str,
    item: &Item<'_>,
    fixed: &Fixed<'c>,
    report: &mut Report,
) -> Option<Searched<'c>> {
    if !key.contains('.') {
        explain_unquoted(key, item, report);
        return None;
    }
    if key.starts_with("market.cost.") {
        let title = format!("`{key}` cannot be searched: costs are never tuned");
        let help = "set it in `[market] cost`";
        report.error(&item.key_span, title, "a cost", help);
        return None;
    }
    if !["model.", "train."]
        .iter()
        .any(|prefix| key.starts_with(prefix))
    {
        let title = format!("`{key}` cannot be searched");
        let label = "neither of the model nor of the training";
        let help = "set it in its own section";
        report.error(&item.key_span, title, label, help);
        return None;
    }
    let schema = find(item, key, fixed.schema, report)?;
    if let Some(span) = fixed.span(schema.name) {
        let title = format!("`{key}` is both fixed and searched");
        let help = "remove one of the two";
        report
            .error(&item.key_span, title, "searched here", help)
            .related = Some((span.clone(), "fixed here".to_owned()));
        return None;
    }
    let (domain, when) = read_range(item, schema, report)?;
    let (when, when_span) = when.unzip();
    Some(Searched {
        schema,
        domain,
        when,
        key_span: item.key_span.clone(),
        when_span,
    })
}

/// Explains that `train.lr = …` without quotes is TOML for a table in a table.
pub(super) fn explain_unquoted(key: &str, item: &Item<'_>, report: &mut Report) {
    let title = format!("`{}` is not a full parameter name", item.name);
    let inner = item.is_table().then(|| item.table(report)).flatten();
    let inner = inner.and_then(|table| table.items().next().map(|(inner, _)| inner.to_owned()));
    let help = match inner {
        Some(inner) if ["model", "train", "market"].contains(&key) => {
            format!("quote the whole name: \"{key}.{inner}\" = …")
        }
        Some(_) | None => "write for example \"train.lr\" or \"model.gamma\"".to_owned(),
    };
    report.error(&item.key_span, title, "has no section in it", help);
}

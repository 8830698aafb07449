//! What identifies a study, and what may change when the same file runs again.

use super::types::StudySpec;
use crate::study::Domain;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// One difference between a stored study and the file at hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Full name: `budget.epochs`, `model.gamma`.
    pub key: String,
    /// Stored value as JSON, `None` where there was none.
    pub old: Option<String>,
    /// Value of the file.
    pub new: Option<String>,
    /// Whether a study may go on with it.
    pub allowed: bool,
}

/// Digests what identifies a study, as 64 hexadecimal digits.
///
/// Left out are the name, `[executors]`, the wall limit, the number of configurations and, where
/// they may change, the epochs. A grown choice list changes the digest although it is allowed:
/// [`changes`] decides, the digest only tells quickly that nothing differs.
pub fn digest(spec: &StudySpec) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in facts(spec) {
        if !is_free(&key, spec) {
            hasher.update(format!("{key}={value}\n"));
        }
    }
    let digest = hasher.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lists every difference but the name, by key.
///
/// Allowed are changes of `[executors]`, the wall limit, the number of configurations, the epochs
/// where no schedule is a fraction of the whole run and no pruner ranks by them, and choices
/// appended to a list.
pub fn changes(old: &StudySpec, new: &StudySpec) -> Vec<Change> {
    let (old_facts, new_facts) = (facts(old), facts(new));
    let keys: BTreeSet<_> = old_facts.keys().chain(new_facts.keys()).collect();
    let differing = keys
        .into_iter()
        .filter(|key| old_facts.get(*key) != new_facts.get(*key));
    differing
        .map(|key| Change {
            key: key.clone(),
            old: old_facts.get(key).map(Json::to_string),
            new: new_facts.get(key).map(Json::to_string),
            allowed: (is_free(key, old) && is_free(key, new)) || has_grown(key, old, new),
        })
        .collect()
}

fn is_free(key: &str, spec: &StudySpec) -> bool {
    let always = ["budget.wall_s", "budget.configurations"];
    let epochs_are_free = match spec.pruner {
        super::PrunerKind::None => spec.spans_run.is_none(),
    };
    always.contains(&key)
        || key.starts_with("executors.")
        || (key == "budget.epochs" && epochs_are_free)
}

/// Decides whether a searched parameter differs only by choices appended to its list.
fn has_grown(name: &str, old: &StudySpec, new: &StudySpec) -> bool {
    let find = |spec: &StudySpec| spec.space.iter().find(|param| param.name == name).cloned();
    let (Some(mut old), Some(new)) = (find(old), find(new)) else {
        return false;
    };
    match (&mut old.domain, &new.domain) {
        (Domain::Choice(old_values), Domain::Choice(new_values)) => {
            if !new_values.starts_with(old_values) {
                return false;
            }
            old_values.clone_from(new_values);
            // A list with the value that switches a part off makes the parameter structural.
            old.structural = new.structural;
            old == new
        }
        _ => false,
    }
}

/// Flattens a spec to one entry per key; a model or training parameter stands under its own name,
/// fixed or searched.
fn facts(spec: &StudySpec) -> BTreeMap<String, Json> {
    let read = "a spec is plain data with string keys and finite numbers";
    let Json::Object(mut sections) = serde_json::to_value(spec).expect(read) else {
        unreachable!("a struct serialises to an object");
    };
    for key in ["name", "fixed", "space", "spans_run"] {
        sections.remove(key);
    }
    let mut facts = BTreeMap::new();
    for (section, value) in sections {
        match value {
            Json::Object(entries) => {
                let entries = entries.into_iter();
                facts.extend(entries.map(|(key, value)| (format!("{section}.{key}"), value)));
            }
            other => {
                facts.insert(section, other);
            }
        }
    }
    for (name, value) in &spec.fixed {
        facts.insert(name.clone(), serde_json::to_value(value).expect(read));
    }
    for param in &spec.space {
        let mut searched = serde_json::to_value(param).expect(read);
        if let Json::Object(entries) = &mut searched {
            entries.remove("name");
        }
        facts.insert(param.name.clone(), searched);
    }
    facts
}

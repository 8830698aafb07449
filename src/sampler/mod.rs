//! Samplers: which point to try next.
//!
//! # Invariants
//! - Pure: the study's seed, the configuration's number and the history decide, nothing else.
//!   No clock, no entropy, no SQL, no async.
//! - Every suggestion lies inside the space, on its grid, and holds exactly the active parameters.
//! - The order of a history means nothing.

#[cfg(test)]
mod conformance;
mod place;
mod random;
mod sobol;
#[cfg(test)]
mod tests;

pub use random::Random;
pub use sobol::Sobol;

use crate::spec::{SamplerKind, SpaceParam, StudySpec};
use crate::study::{ConfigurationNumber, Domain, History, Params, Value};

/// Proposes points of a space.
pub trait Sampler: Send + Sync {
    /// Proposes the point of one configuration: a value for every active parameter.
    ///
    /// - `space`: valid, sorted by name.
    /// - `seed`: of the study.
    /// - `number`: 0-based, of the configuration.
    /// - `history`: what lies below the configuration's watermark, in any order.
    fn suggest(&self, space: &[SpaceParam], seed: u64, number: u32, history: &History) -> Params;
}

/// Returns the sampler of a kind.
pub fn sampler(kind: SamplerKind) -> Box<dyn Sampler> {
    match kind {
        SamplerKind::Random => Box::new(Random),
        SamplerKind::Sobol => Box::new(Sobol),
    }
}

/// Proposes the point of a study's configuration: the enqueued ones first, then the sampler's.
///
/// What an enqueued point leaves out is sampled; what it sets although its condition does not
/// hold is dropped.
pub fn propose(spec: &StudySpec, number: ConfigurationNumber, history: &History) -> Params {
    let sampler = sampler(spec.sampler);
    match spec.enqueue.get(number.0 as usize) {
        Some(point) => {
            let space = pinned(&spec.space, point);
            sampler.suggest(&space, spec.seed, number.0, history)
        }
        None => sampler.suggest(&spec.space, spec.seed, number.0, history),
    }
}

/// Narrows the space to a point where the point says something.
fn pinned(space: &[SpaceParam], point: &Params) -> Vec<SpaceParam> {
    let pin = |param: &SpaceParam| match point.get(&param.name) {
        Some(value) => SpaceParam {
            domain: Domain::Choice(vec![value.clone()]),
            ..param.clone()
        },
        None => param.clone(),
    };
    space.iter().map(pin).collect()
}

/// Drops the parameters whose condition does not hold.
///
/// - `values`: one per parameter of `space`, in its order.
fn active(space: &[SpaceParam], values: Vec<Value>) -> Params {
    let all: Params = space
        .iter()
        .zip(values)
        .map(|(param, value)| (param.name.clone(), value))
        .collect();
    let is_active = |name: &str| {
        let mut name = name;
        loop {
            let param = space.iter().find(|param| param.name == name);
            let Some(when) = param.and_then(|param| param.when.as_ref()) else {
                return true;
            };
            if !all.get(&when.name).is_some_and(|v| when.values.contains(v)) {
                return false;
            }
            // Ends, because a valid space has no circle of conditions.
            name = &when.name;
        }
    };
    let kept = all.iter().filter(|(name, _)| is_active(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

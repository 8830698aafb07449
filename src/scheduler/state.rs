//! What the scheduler knows of a study's configurations.

use crate::store::ConfigurationHistory;
use crate::study::{
    ConfigurationNumber, History, Observation, Params, Precision, TrialId, TrialState, cohort_of,
    configuration_value, watermark,
};
use std::collections::{BTreeMap, HashMap};

/// A trial as the scheduler sees it.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) trial_id: TrialId,
    pub(super) precision: Precision,
    pub(super) replicate: u32,
    pub(super) state: TrialState,
    pub(super) value: Option<f64>,
}

/// A configuration with its trials.
#[derive(Debug, Clone)]
pub(super) struct Configuration {
    pub(super) params: Params,
    pub(super) trials: Vec<Trial>,
}

impl Configuration {
    pub(super) fn has_ended(&self) -> bool {
        self.trials.iter().all(|trial| trial.state.is_final())
    }

    fn observation(&self, number: u32) -> Observation {
        let values: Vec<Option<f64>> = self.trials.iter().map(|trial| trial.value).collect();
        let has = |state| self.trials.iter().any(|trial| trial.state == state);
        let state = if !self.has_ended() {
            TrialState::Running
        } else if has(TrialState::Failed) {
            TrialState::Failed
        } else if has(TrialState::Pruned) {
            TrialState::Pruned
        } else {
            TrialState::Complete
        };
        Observation {
            number: ConfigurationNumber(number),
            params: self.params.clone(),
            state,
            value: configuration_value(&values),
        }
    }
}

/// Every configuration of a study, by number.
#[derive(Debug, Default)]
pub(super) struct Configurations {
    by_number: BTreeMap<u32, Configuration>,
    number_of: HashMap<TrialId, u32>,
}

impl Configurations {
    pub(super) fn from_history(history: Vec<ConfigurationHistory>) -> Self {
        let mut all = Self::default();
        for configuration in history {
            let trials = configuration
                .trials
                .into_iter()
                .map(|trial| Trial {
                    trial_id: trial.trial_id,
                    precision: trial.precision,
                    replicate: trial.replicate,
                    state: trial.state,
                    value: trial.value,
                })
                .collect();
            let params = configuration.params;
            all.insert(configuration.number.0, Configuration { params, trials });
        }
        all
    }

    pub(super) fn insert(&mut self, number: u32, configuration: Configuration) {
        for trial in &configuration.trials {
            self.number_of.insert(trial.trial_id, number);
        }
        self.by_number.insert(number, configuration);
    }

    pub(super) fn get(&self, number: u32) -> Option<&Configuration> {
        self.by_number.get(&number)
    }

    pub(super) fn number_of(&self, trial_id: TrialId) -> u32 {
        self.number_of[&trial_id]
    }

    pub(super) fn trial(&self, trial_id: TrialId) -> &Trial {
        let configuration = &self.by_number[&self.number_of(trial_id)];
        let trial = configuration
            .trials
            .iter()
            .find(|trial| trial.trial_id == trial_id);
        trial.expect("indexed with its configuration")
    }

    pub(super) fn trial_mut(&mut self, trial_id: TrialId) -> &mut Trial {
        let number = self.number_of(trial_id);
        let configuration = self.by_number.get_mut(&number).expect("indexed");
        let trial = configuration
            .trials
            .iter_mut()
            .find(|trial| trial.trial_id == trial_id);
        trial.expect("indexed with its configuration")
    }

    /// Iterates over trials below a configuration number, in order.
    pub(super) fn trials_below(&self, limit: u32) -> impl Iterator<Item = &Trial> {
        self.by_number
            .range(..limit)
            .flat_map(|(_, configuration)| &configuration.trials)
    }

    /// Whether every configuration below `limit` exists and has ended.
    pub(super) fn have_ended_below(&self, limit: u32) -> bool {
        let mut below = self.by_number.range(..limit);
        below.clone().count() == limit as usize
            && below.all(|(_, configuration)| configuration.has_ended())
    }

    /// Returns the numbers of the next cohort, if it may be sampled now.
    ///
    /// - `budget`: configurations of the study.
    pub(super) fn next_cohort(&self, budget: u32, cohort_size: u32) -> Option<Vec<u32>> {
        let first = self.by_number.keys().next_back().map_or(0, |last| last + 1);
        if first >= budget
            || !self.have_ended_below(watermark(ConfigurationNumber(first), cohort_size))
        {
            return None;
        }
        let cohort = cohort_of(ConfigurationNumber(first), cohort_size);
        let end = ((u64::from(cohort) + 1) * u64::from(cohort_size)).min(u64::from(budget));
        Some((first..u32::try_from(end).expect("below the budget")).collect())
    }

    /// What a suggestion for `number` may learn from.
    pub(super) fn history(&self, number: u32, cohort_size: u32) -> History {
        let limit = watermark(ConfigurationNumber(number), cohort_size);
        let observations = self
            .by_number
            .range(..limit)
            .map(|(number, configuration)| configuration.observation(*number))
            .collect();
        History { observations }
    }
}

#[cfg(test)]
mod tests;

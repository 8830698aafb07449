//! Identifiers: database keys and the 0-based number of a configuration.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! database_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

database_key! {
    /// Database key of a study.
    StudyId
}
database_key! {
    /// Database key of a configuration.
    ConfigurationId
}
database_key! {
    /// Database key of a trial.
    TrialId
}
database_key! {
    /// Database key of an attempt.
    AttemptId
}

/// 0-based index of a configuration within its study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigurationNumber(pub u32);

impl fmt::Display for ConfigurationNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

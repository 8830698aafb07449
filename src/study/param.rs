//! Parameter values, their domains, and the schemas that models export.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One parameter's value; `true`, `1` and `1.0` are three different values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer, exact.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "\"{value}\""),
        }
    }
}

/// A point: full parameter name (`model.gamma`) to value.
pub type Params = BTreeMap<String, Value>;

/// How a numeric range is traversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Uniform in the value.
    Linear,
    /// Uniform in the logarithm; the low end is positive.
    Log,
    /// Uniform in `ln(1 - x)`; the high end is below 1.
    LogOneMinus,
}

/// The set of values that a parameter may take. Ranges are inclusive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Floats from `low` to `high`; with a `step`, `low + k * step` only.
    Float {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
        /// Traversal.
        scale: Scale,
        /// Grid spacing, positive.
        step: Option<f64>,
    },
    /// Integers from `low` to `high`; with a `step`, `low + k * step` only.
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
        /// Traversal.
        scale: Scale,
        /// Grid spacing, positive.
        step: Option<i64>,
    },
    /// One of a list; the order is part of the study.
    Choice(Vec<Value>),
}

/// Activates a parameter only where another one has one of the listed values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct When {
    /// Full name of the controlling parameter.
    pub name: String,
    /// Values that activate.
    pub values: Vec<Value>,
}

/// What a model or the trainer says about one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSchema {
    /// Full name: `model.gamma`, `train.lr`.
    pub name: &'static str,
    /// Every legal value; a fixed value or a searched range must lie within.
    pub legal: Domain,
    /// The range worth searching, for `models` and `init`.
    pub suggested: Option<Domain>,
    /// Value where the sweep says nothing.
    pub default: Value,
    /// Other parameter that must hold for this one to matter.
    pub when: Option<When>,
    /// Whether it changes shapes or the graph, and so the plan key.
    pub structural: bool,
    /// One line for people.
    pub doc: &'static str,
}

/// A model kind and its parameters, exported by `models`, read by `spec`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSchema {
    /// The `kind` of `[model]`.
    pub kind: &'static str,
    /// One line for people.
    pub doc: &'static str,
    /// Parameters of `[model]` and `[train]`.
    pub params: Vec<ParamSchema>,
    /// Named sets of values, for example `ref-dqn`.
    pub presets: Vec<(&'static str, Vec<(&'static str, Value)>)>,
}

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

impl Value {
    /// Returns the number, integers converted; `None` for booleans and strings.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// Returns the integer; floats are not integers, not even whole ones.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Returns the boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Int(_) | Self::Float(_) | Self::Text(_) => None,
        }
    }

    /// Returns the string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) => None,
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

impl Scale {
    /// Returns the name used in sweep files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Log => "log",
            Self::LogOneMinus => "log_one_minus",
        }
    }
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

impl Domain {
    /// Decides whether `value` lies in the domain, its grid and its type included.
    pub fn contains(&self, value: &Value) -> bool {
        match (self, value) {
            (
                Self::Float {
                    low, high, step, ..
                },
                Value::Float(value),
            ) => {
                let on_grid = step.is_none_or(|step| {
                    let cell = (value - low) / step;
                    // A grid value is `low + k * step` with two roundings, far below 1e-9 of it.
                    (cell - cell.round()).abs() <= 1e-9 * cell.abs().max(1.0)
                });
                low <= value && value <= high && on_grid
            }
            (
                Self::Int {
                    low, high, step, ..
                },
                Value::Int(value),
            ) => {
                let on_grid = step.is_none_or(|step| {
                    (i128::from(*value) - i128::from(*low)) % i128::from(step) == 0
                });
                low <= value && value <= high && on_grid
            }
            (Self::Choice(values), value) => values.contains(value),
            (Self::Float { .. } | Self::Int { .. }, _) => false,
        }
    }

    /// Counts the distinct values; `None` where they are a continuum.
    pub fn n_values(&self) -> Option<u128> {
        match self {
            Self::Float { step: None, .. } => None,
            Self::Float {
                low,
                high,
                step: Some(step),
                ..
            } => Some(((high - low) / step).round() as u128 + 1),
            Self::Int {
                low, high, step, ..
            } => {
                let width = (i128::from(*high) - i128::from(*low)).unsigned_abs();
                Some(width / u128::from(step.unwrap_or(1).unsigned_abs()) + 1)
            }
            Self::Choice(values) => Some(values.len() as u128),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, step) = match self {
            Self::Float {
                low,
                high,
                scale,
                step,
            } => {
                write!(f, "{low:?} to {high:?}")?;
                (*scale, step.map(|step| format!("{step:?}")))
            }
            Self::Int {
                low,
                high,
                scale,
                step,
            } => {
                write!(f, "{low} to {high}")?;
                (*scale, step.map(|step| step.to_string()))
            }
            Self::Choice(values) => {
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at == 0 { "" } else { ", " })?;
                }
                return Ok(());
            }
        };
        if let Some(step) = step {
            write!(f, " in steps of {step}")?;
        }
        match scale {
            Scale::Linear => Ok(()),
            Scale::Log => f.write_str(", log"),
            Scale::LogOneMinus => f.write_str(", log_one_minus"),
        }
    }
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
    /// Value that leaves a part out of the graph: on or off is structural, the rest is not.
    pub off: Option<Value>,
    /// Whether it sets a schedule in fractions of the whole run, so that the number of epochs
    /// changes the training itself. A value of 0 sets none.
    pub spans_run: bool,
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
    /// Pairs of parameters of which the first may never exceed the second.
    pub at_most: Vec<(&'static str, &'static str)>,
    /// Pairs of counts of which the first must be a multiple of the second.
    pub multiple_of: Vec<(&'static str, &'static str)>,
}

impl ModelSchema {
    /// Looks a parameter up by its full name.
    pub fn param(&self, name: &str) -> Option<&ParamSchema> {
        self.params.iter().find(|param| param.name == name)
    }

    /// Looks a preset up by its name.
    pub fn preset(&self, name: &str) -> Option<&[(&'static str, Value)]> {
        let preset = self.presets.iter().find(|(preset, _)| *preset == name)?;
        Some(&preset.1)
    }
}

//! Scalar types and the arithmetic of the trading environment.

pub mod env;
pub mod real;

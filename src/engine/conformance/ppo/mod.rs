//! A toy PPO as a program: proof that the format carries data-dependent passes.
//!
//! The task is a chain of two states. Staying pays 0.2 in state 0 and 1 in state 1, moving pays
//! nothing, and a tenth of the steps end the episode back in state 0: the greedy choice in state 0
//! is the wrong one.
//!
//! # Invariants
//! - A cycle is a rollout (one repeat a step), one pass of generalised advantages, then a fixed
//!   number of minibatches. How many of them change the weights is a guard.
//! - The number of passes and the KL bound are lane values.

mod program;
mod tests;

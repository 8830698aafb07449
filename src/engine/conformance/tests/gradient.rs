//! Gradients of every op against central differences in F64, and of fused ops against those of
//! their definitions.

use crate::engine::backend::{Backend, Data, LaneIdx};
use crate::engine::conformance::case::{Case, oracle};
use crate::engine::conformance::compare::norm_apart;
use crate::engine::conformance::ops::{emit, gradient_case, weighted_gradients, weights};
use crate::engine::graph::DType;
use crate::engine::op::Op;
use crate::engine::op::StateId;
use crate::engine::op::samples::{self, Sample};
use crate::engine::plan::{LowerOptions, lower};

/// Step of the central differences. In F64 rounding costs 1e-16/1e-6 = 1e-10 of the value and
/// truncation 1e-12 of the third derivative, both far below the bound.
const STEP: f64 = 1e-6;
/// Relative to the largest element of the gradient.
const RELATIVE: f64 = 1e-5;

/// Returns the central differences of Σ weight·value by every element of an operand.
pub(super) fn differences(case: &Case, position: usize) -> Vec<f64> {
    let oracle = oracle();
    let mut session = case.open(&oracle, oracle.lower(&case.program));
    let id = StateId(u32::try_from(position).expect("few operands"));
    let start = case.values[&id].to_f64();
    let mut loss = |elements: Vec<f64>| -> f64 {
        session
            .write(LaneIdx(0), id, &Data::F64(elements))
            .expect("the oracle takes F64");
        session.train(0).expect("the CPU works");
        let out = session
            .read(LaneIdx(0), case.outputs[0])
            .expect("the CPU works")
            .to_f64();
        // Padding of an output is 0, so every element counts.
        out.iter()
            .zip(weights(out.len()))
            .map(|(value, weight)| value * weight)
            .sum()
    };
    let moved = |i: usize, step: f64| {
        let mut elements = start.clone();
        elements[i] += step;
        elements
    };
    (0..start.len())
        .map(|i| (loss(moved(i, STEP)) - loss(moved(i, -STEP))) / (2.0 * STEP))
        .collect()
}

#[track_caller]
pub(super) fn assert_gradient(label: &str, got: &[f64], expected: &[f64]) {
    let largest = expected
        .iter()
        .fold(0.0_f64, |top, value| top.max(value.abs()));
    // A gradient of zero is met by differences of rounding alone.
    let bound = if largest > 1e-4 {
        RELATIVE * largest
    } else {
        1e-9
    };
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            (g - e).abs() <= bound,
            "{label}: element {i} is {g}, differences say {e}"
        );
    }
}

#[test]
fn gradients_agree_with_central_differences() {
    let mut n_compared = 0;
    for sample in samples::all().iter().filter(|sample| sample.is_smooth) {
        let (case, positions) = gradient_case(sample);
        let found = case.run(&oracle());
        for (position, input) in sample.inputs.iter().enumerate() {
            if input.dtype != DType::F32 || input.is_table || sample.held.contains(&position) {
                continue;
            }
            let label = format!("operand {position} of {}", sample.label());
            let expected = differences(&case, position);
            match positions.iter().position(|p| *p == position) {
                Some(k) => assert_gradient(&label, &found[1 + k].to_f64(), &expected),
                None => assert_gradient(&label, &vec![0.0; expected.len()], &expected),
            }
            n_compared += 1;
        }
    }
    assert!(
        n_compared > 150,
        "only {n_compared} gradients were compared"
    );
}

#[test]
fn held_operands_get_no_gradient() {
    for sample in samples::all() {
        let (_, positions) = gradient_case(&sample);
        assert!(
            positions
                .iter()
                .all(|position| !sample.held.contains(position)),
            "{} has a gradient that its definition denies",
            sample.label()
        );
    }
}

/// Gradient of the definition of a fused op, in the order of [`gradient_case`].
fn expanded_case(sample: &Sample) -> Option<Case> {
    let mut is_fused = true;
    let case = Case::new(&sample.inputs, |b, operands| {
        let Some(out) = sample.op.expand(b.graph(), operands) else {
            is_fused = false;
            return vec![emit(b, sample, operands)];
        };
        let found = weighted_gradients(b, out, operands);
        let kept = found
            .into_iter()
            .enumerate()
            .filter(|(k, _)| !sample.held.contains(k));
        [out]
            .into_iter()
            .chain(kept.filter_map(|(_, grad)| grad))
            .collect()
    });
    is_fused.then_some(case)
}

#[test]
fn fused_gradients_are_those_of_the_definition() {
    let mut n_fused = 0;
    for sample in samples::all().iter().filter(|sample| sample.is_smooth) {
        let Some(definition) = expanded_case(sample) else {
            continue;
        };
        let (case, _) = gradient_case(sample);
        let (got, expected) = (case.run(&oracle()), definition.run(&oracle()));
        assert_eq!(got.len(), expected.len(), "{}", sample.label());
        for (got, expected) in got.iter().zip(&expected) {
            // Two orders of the same few F64 roundings of 1e-16.
            let apart = norm_apart(&got.to_f64(), &expected.to_f64());
            assert!(apart < 1e-12, "{}: {apart:e} apart", sample.label());
        }
        n_fused += 1;
    }
    assert!(n_fused >= 9, "only {n_fused} samples of fused ops");
}

#[test]
fn fused_kernels_in_f64_compute_their_definitions() {
    let oracle = oracle();
    for sample in samples::all()
        .iter()
        .filter(|sample| matches!(sample.op, Op::Loss(_)))
    {
        let case = Case::new(&sample.inputs, |b, operands| {
            vec![emit(b, sample, operands)]
        });
        let elements = oracle.lower(&case.program).elements;
        let options = LowerOptions {
            elements,
            expand: false,
            fuse: true,
            waves: false,
        };
        let kernel = case.run_plan(&oracle, lower(&case.program, options));
        let (got, expected) = (kernel[0].to_f64(), case.run(&oracle)[0].to_f64());
        let nan = |values: &[f64]| values.iter().map(|v| v.is_nan()).collect::<Vec<_>>();
        assert_eq!(nan(&got), nan(&expected), "{}", sample.label());
        // Two orders of the same few F64 roundings of 1e-16.
        let apart = norm_apart(&got, &expected);
        assert!(apart < 1e-12, "{}: {apart:e} apart", sample.label());
    }
}

//! Every op's samples on a backend against the oracle.

use super::case::{Case, oracle};
use super::compare::{agree, bits};
use crate::engine::autodiff;
use crate::engine::backend::Backend;
use crate::engine::graph::{Builder, DType, NodeId};
use crate::engine::math;
use crate::engine::op::Op;
use crate::engine::op::samples::{self, Sample, Tolerance, draw, tolerance};

/// Norm-wise bounds of each arm against the oracle (engine gates). F32 sums a few hundred
/// roundings of 6e-8. A product of two operands rounded to 11 bits (tf32) or 8 bits (bf16) is off
/// by up to 2·2⁻¹² = 5e-4 or 2·2⁻⁹ = 4e-3; a chain of four such products stays within the bound.
const ARMS: [(DType, f64); 3] = [(DType::F32, 1e-5), (DType::Tf32, 2e-3), (DType::Bf16, 2e-2)];

/// Compares the value of every op.
pub(super) fn forwards(backend: &dyn Backend) {
    for sample in samples::all() {
        let case = Case::new(&sample.inputs, |b, operands| {
            vec![emit(b, &sample, operands)]
        });
        let (got, expected) = (case.run(backend), case.run(&oracle()));
        agree(
            &sample.label(),
            &got[0],
            &expected[0],
            tolerance(&sample.op),
        );
        if let Op::Cast(DType::Tf32 | DType::Bf16) = sample.op {
            assert_narrow(&sample, &got[0].to_f64());
        }
    }
}

/// Panics unless a cast gave numbers of its type, each the one that the engine's rounding gives.
fn assert_narrow(sample: &Sample, got: &[f64]) {
    let round = if sample.op == Op::Cast(DType::Bf16) {
        math::round_bf16
    } else {
        math::round_tf32
    };
    for (x, got) in sample.inputs[0].values.iter().zip(got) {
        let expected = round(*x as f32);
        let is_same = expected.to_bits() == (*got as f32).to_bits();
        assert!(
            is_same || expected.is_nan() && got.is_nan(),
            "{}: {x} gave {got}",
            sample.label()
        );
    }
}

/// Compares the gradient of every op that has one.
pub(super) fn gradients(backend: &dyn Backend) {
    for sample in samples::all().iter().filter(|sample| sample.is_smooth) {
        let (case, _) = gradient_case(sample);
        let (got, expected) = (case.run(backend), case.run(&oracle()));
        for (k, (got, expected)) in got.iter().zip(&expected).enumerate().skip(1) {
            let label = format!("gradient {k} of {}", sample.label());
            // A rounding per op and one per term of a sum, as in a forward.
            agree(&label, got, expected, Tolerance::Norm(1e-5));
        }
    }
}

/// Compares the arms: matrix products within their bounds, everything else bit by bit.
pub(super) fn precisions(backend: &dyn Backend) {
    for sample in samples::all().iter().filter(|sample| sample.is_smooth) {
        let (mut case, _) = gradient_case(sample);
        let exact = case.run(&oracle());
        let plain = case.run(backend);
        let program = case.program.clone();
        for (dtype, share) in ARMS {
            case.program = program.with_precision(dtype, dtype);
            for (k, got) in case.run(backend).iter().enumerate() {
                let label = format!("{dtype:?}: result {k} of {}", sample.label());
                if matches!(sample.op, Op::Gemm(_) | Op::Recur(_)) {
                    agree(&label, got, &exact[k], Tolerance::Norm(share));
                } else {
                    assert_eq!(bits(got), bits(&plain[k]), "{label}");
                }
            }
        }
    }
}

/// Compares each narrow product with the plain one of operands that were rounded beforehand: no
/// backend adds or removes a rounding.
///
/// Products of narrow operands are exact in F32, but an instruction may add them in another order
/// than the plain product does; a rounding too many or too few would be off by 2⁻¹² at least.
pub(super) fn roundings(backend: &dyn Backend) {
    for sample in samples::all()
        .iter()
        .filter(|sample| matches!(sample.op, Op::Gemm(_)))
    {
        let case = |sample: &Sample| {
            Case::new(&sample.inputs, |b, operands| {
                vec![emit(b, sample, operands)]
            })
        };
        for (dtype, round) in [
            (DType::Tf32, math::round_tf32 as fn(f32) -> f32),
            (DType::Bf16, math::round_bf16),
        ] {
            let mut rounded = sample.clone();
            for value in rounded
                .inputs
                .iter_mut()
                .flat_map(|input| &mut input.values)
            {
                *value = f64::from(round(*value as f32));
            }
            let mut narrow = case(sample);
            narrow.program = narrow.program.with_precision(dtype, dtype);
            let (got, expected) = (narrow.run(backend), case(&rounded).run(backend));
            let label = format!("{dtype:?}: {}", sample.label());
            agree(&label, &got[0], &expected[0], Tolerance::Norm(2e-6));
        }
    }
}

/// Pushes the op of a sample; a leaf reads no node.
pub(super) fn emit(b: &mut Builder<'_>, sample: &Sample, operands: &[NodeId]) -> NodeId {
    let operands = if matches!(sample.op, Op::Leaf(_)) {
        &[]
    } else {
        operands
    };
    b.push(sample.op.clone(), operands)
}

/// The value of an op, and the gradients of Σ weight·value: a case and, per output behind the
/// value, the position of the operand.
pub(super) fn gradient_case(sample: &Sample) -> (Case, Vec<usize>) {
    let mut positions = Vec::new();
    let case = Case::new(&sample.inputs, |b, operands| {
        let out = emit(b, sample, operands);
        let found = weighted_gradients(b, out, operands);
        let mut nodes = vec![out];
        for (position, grad) in found.into_iter().enumerate() {
            if let Some(grad) = grad {
                positions.push(position);
                nodes.push(grad);
            }
        }
        nodes
    });
    (case, positions)
}

/// Emits the gradients of Σ weight·out.
pub(super) fn weighted_gradients(
    b: &mut Builder<'_>,
    out: NodeId,
    wrt: &[NodeId],
) -> Vec<Option<NodeId>> {
    if !b.dtype(out).is_real() {
        return vec![None; wrt.len()];
    }
    let shape = b.shape(out);
    let weights = weights(shape.n_elements());
    let seed = b.constant(shape, &weights, DType::F32);
    autodiff::gradients(b.graph(), &[(out, seed)], wrt)
}

/// Weights that make a scalar of a tensor, all different.
pub(super) fn weights(n: usize) -> Vec<f64> {
    draw("weights", n, 0.5, 1.5)
}

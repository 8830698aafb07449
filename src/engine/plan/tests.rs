//! Arena, purity, fusion and the dump.

use super::arena::{ALIGN_BYTES, Buffer, place};
use super::{ElementBytes, Kernel, LowerOptions, Operand, Plan, Step, lower};
use crate::engine::autodiff::grad;
use crate::engine::conformance::graphs;
use crate::engine::graph::DType;
use crate::engine::op::samples::rnn;
use crate::engine::op::{Effect, ScalarOp};
use crate::engine::program::{Init, Program, SECTIONS, Section};
use proptest::prelude::*;

const F32: LowerOptions = LowerOptions {
    elements: ElementBytes { f32: 4, bf16: 4 },
    expand: false,
    fuse: true,
};

fn buffers() -> impl Strategy<Value = Vec<Buffer>> {
    let buffer = (1_usize..3_000, 0_usize..20, 0_usize..8).prop_map(|(bytes, first, n)| Buffer {
        bytes,
        first,
        last: first + n,
        offset: 0,
    });
    prop::collection::vec(buffer, 1..40)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn buffers_of_one_time_lie_apart(mut buffers in buffers(), base in 0_usize..4) {
        let base = base * ALIGN_BYTES;
        let end = place(&mut buffers, base);
        for (i, a) in buffers.iter().enumerate() {
            prop_assert!(a.offset.is_multiple_of(ALIGN_BYTES) && a.offset >= base);
            prop_assert!(a.offset + a.bytes <= end);
            for b in &buffers[..i] {
                let meet = a.first <= b.last && b.first <= a.last;
                let overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
                prop_assert!(!(meet && overlap), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn plans_read_what_was_written(number: u64, is_narrow: bool, fuse: bool) {
        let dtype = if is_narrow { DType::Bf16 } else { DType::F32 };
        let program = graphs::program(number).with_precision(dtype, dtype);
        // Two-byte bf16, as on a device.
        let elements = ElementBytes { f32: 4, bf16: 2 };
        let plan = lower(&program, LowerOptions { elements, expand: false, fuse });
        Memory::check(&plan);
    }

    #[test]
    fn lowering_is_pure(number: u64) {
        let program = graphs::program(number);
        let (one, two) = (lower(&program, F32), lower(&program.clone(), F32));
        prop_assert_eq!(one.to_string(), two.to_string());
        prop_assert_eq!(one, two);
    }
}

/// Which buffer each byte of a lane was last written as part of.
struct Memory<'p> {
    plan: &'p Plan,
    owner: Vec<Option<u32>>,
}

impl<'p> Memory<'p> {
    /// Walks a plan and panics where a launch reads bytes that something else overwrote.
    fn check(plan: &'p Plan) {
        for buffer in &plan.buffers {
            assert!(buffer.offset.is_multiple_of(ALIGN_BYTES));
            assert!(buffer.offset + buffer.bytes <= plan.lane_bytes);
        }
        let mut memory = Self {
            plan,
            owner: vec![None; plan.lane_bytes],
        };
        let constants = plan.constants.iter().map(|(operand, _)| operand);
        for operand in plan.state_operands.iter().chain(constants) {
            memory.write(operand);
        }
        for phase in SECTIONS.iter().flat_map(|section| plan.section(*section)) {
            // Transient memory holds nothing when a phase starts.
            memory.owner[plan.persistent_bytes..].fill(None);
            memory.steps(&phase.steps);
            for commit in &phase.commits {
                for operand in operands_of(commit) {
                    memory.read(operand);
                }
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            step.inputs.iter().for_each(|input| self.read(input));
            if let Kernel::Loop(inner) = &step.kernel {
                // Twice, so that the second step of the loop finds its operands too.
                for _ in 0..2 {
                    inner
                        .carries
                        .iter()
                        .chain(&inner.slices)
                        .for_each(|part| self.write(part));
                    inner.carries.iter().for_each(|carry| self.read(carry));
                    self.steps(&inner.steps);
                    inner
                        .next
                        .iter()
                        .chain(&inner.outputs)
                        .for_each(|part| self.read(part));
                    step.inputs.iter().for_each(|input| self.read(input));
                }
            }
            let out = self
                .plan
                .range(&step.output)
                .expect("outputs lie in the arena");
            assert!(
                out.start >= self.plan.persistent_bytes,
                "a launch writes a state"
            );
            for input in step
                .inputs
                .iter()
                .filter_map(|input| self.plan.range(input))
            {
                assert!(input.end <= out.start || out.end <= input.start, "{step:?}");
            }
            self.write(&step.output);
        }
    }

    fn write(&mut self, operand: &Operand) {
        let range = self
            .plan
            .range(operand)
            .expect("what is written lies in the arena");
        self.owner[range].fill(operand.buffer().map(|buffer| buffer.0));
    }

    fn read(&self, operand: &Operand) {
        let Some(range) = self.plan.range(operand) else {
            return;
        };
        let owner = operand.buffer().map(|buffer| buffer.0);
        let first = self.owner[range].iter().find(|byte| **byte != owner);
        assert_eq!(first, None, "{operand:?} was overwritten or never written");
    }
}

/// What a commit reads and writes.
fn operands_of(commit: &super::Commit) -> Vec<&Operand> {
    use super::Commit;
    let mut all: Vec<&Operand> = match commit {
        Commit::Store { state, value, .. } => vec![state, value],
        Commit::RingPush {
            state, row, value, ..
        } => vec![state, row, value],
        Commit::Adam {
            blocks,
            target,
            grad,
            scalars,
            step,
            ..
        } => {
            let target = target.iter().flat_map(|(block, tau)| [block, tau]);
            blocks
                .iter()
                .chain(target)
                .chain([grad, step])
                .chain(scalars)
                .collect()
        }
        Commit::SpectralNorm {
            blocks, sigma_max, ..
        } => blocks.iter().chain([sigma_max]).collect(),
    };
    all.extend(commit.guard());
    all
}

/// A dense layer, its loss and update, with a guard.
fn small() -> Program {
    let mut program = Program::default();
    program.n_cycles = 1;
    let block = program.state("block", [15], DType::F32, Init::Host);
    let [m, v] = ["m", "v"].map(|name| program.state(name, [15], DType::F32, Init::Zero));
    let x = program.state("x", [2, 4], DType::F32, Init::Host);
    let step = program.state("step", [], DType::I32, Init::Zero);
    program.blocks = vec![block];
    program.phase(Section::Cycle, "learn", 2, |p, b| {
        let (block_node, x) = (p.read(b, block), p.read(b, x));
        let w = b.slice(block_node, 0, 0, 12);
        let w = b.reshape(w, [4, 3]);
        let bias = b.slice(block_node, 0, 12, 3);
        let y = b.gemm(x, w);
        let y = b.add(y, bias);
        let y = b.map(ScalarOp::Tanh, &[y]);
        let square = b.mul(y, y);
        let loss = b.mean_all(square);
        let grad = grad(b.graph(), loss, &[block_node])[0].expect("it depends on the block");
        let count = p.read(b, step);
        let next = b.increment(count);
        let guard = Some(b.is_finite(loss));
        let mut scalar = |value| b.scalar(value);
        let adam = Effect::Adam {
            param: block,
            m,
            v,
            target: None,
            grad,
            grad_scale: scalar(1.0),
            step: next,
            lr: scalar(0.001),
            beta1: scalar(0.9),
            beta2: scalar(0.999),
            eps: scalar(1e-8),
            weight_decay: scalar(0.0),
            guard,
        };
        vec![
            adam,
            Effect::Store {
                state: step,
                value: next,
                guard,
            },
        ]
    });
    program
}

#[test]
fn a_small_plan_is_the_golden_one() {
    let narrow = small().with_precision(DType::Bf16, DType::Bf16);
    let elements = ElementBytes { f32: 4, bf16: 2 };
    let plan = lower(&narrow, LowerOptions { elements, ..F32 });
    let phase = &narrow.section(Section::Cycle)[0];
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("plan_small", format!("{}\n{plan}", phase.graph));
    });
}

#[test]
fn a_loop_is_one_launch_with_its_body() {
    let mut program = Program::default();
    let [h, x, w, u, bias] = [
        ("h", vec![2, 3]),
        ("x", vec![4, 2, 4]),
        ("w", vec![4, 3]),
        ("u", vec![3, 3]),
        ("b", vec![3]),
    ]
    .map(|(name, shape)| program.state(name, shape, DType::F32, Init::Zero));
    program.phase(Section::Begin, "loop", 1, |p, b| {
        let operands = [h, x, w, u, bias].map(|id| p.read(b, id));
        let cell = rnn(4, 2, 3, false);
        let out = b.recur(cell.clone(), &operands);
        vec![Effect::Store {
            state: h,
            value: cell.carry(b, out, 0),
            guard: None,
        }]
    });
    let plan = lower(&program, F32);
    Memory::check(&plan);
    let steps = &plan.section(Section::Begin)[0].steps;
    let [
        Step {
            kernel: Kernel::Loop(inner),
            ..
        },
    ] = steps.as_slice()
    else {
        panic!("{plan}");
    };
    // Two products and one fused region.
    assert_eq!(inner.steps.len(), 3, "{plan}");
}

#[test]
fn plans_of_equal_programs_share_a_digest() {
    let (one, two) = (small(), small());
    assert_eq!(one.digest(), two.digest());
    let narrow = one.with_precision(DType::Bf16, DType::Bf16);
    assert_ne!(one.digest(), narrow.digest());
    assert_ne!(one.digest(), graphs::program(1).digest());
    assert_eq!(lower(&one, F32).digest, one.digest());
}

#[test]
fn pointwise_chains_become_one_launch() {
    let count = |fuse| lower(&small(), LowerOptions { fuse, ..F32 }).n_launches(Section::Cycle);
    assert!(
        count(true) < count(false),
        "{} against {}",
        count(true),
        count(false)
    );
}

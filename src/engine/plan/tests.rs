//! Arena, purity, fusion and the dump.

use super::arena::{ALIGN_BYTES, Buffer, place};
use super::schedule::read_by;
use super::{ElementBytes, Job, Kernel, LowerOptions, Operand, PhasePlan, Plan, Step, lower};
use crate::engine::autodiff::grad;
use crate::engine::conformance::graphs;
use crate::engine::graph::DType;
use crate::engine::op::samples::rnn;
use crate::engine::op::{Effect, ScalarOp};
use crate::engine::program::{Init, Program, SECTIONS, Section};
use proptest::prelude::*;
use std::ops::Range;

const F32: LowerOptions = LowerOptions {
    elements: ElementBytes { f32: 4, bf16: 4 },
    expand: false,
    fuse: true,
    waves: false,
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
    fn plans_read_what_was_written(number: u64, is_narrow: bool, fuse: bool, waves: bool) {
        let dtype = if is_narrow { DType::Bf16 } else { DType::F32 };
        let program = graphs::program(number).with_precision(dtype, dtype);
        // Two-byte bf16, as on a device.
        let elements = ElementBytes { f32: 4, bf16: 2 };
        let plan = lower(&program, LowerOptions { elements, expand: false, fuse, waves });
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

/// Panics where a launch of a plan reads bytes that something else overwrote.
pub(crate) fn check_memory(plan: &Plan) {
    Memory::check(plan);
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
            let before = memory.owner.clone();
            for wave in &phase.waves {
                memory.wave(phase, wave);
            }
            memory.owner[..plan.persistent_bytes].copy_from_slice(&before[..plan.persistent_bytes]);
        }
    }

    /// Runs the jobs of a wave: all of them read before any writes.
    fn wave(&mut self, phase: &PhasePlan, wave: &[Job]) {
        let mut written: Vec<(usize, Range<usize>)> = Vec::new();
        let mut read: Vec<(usize, Range<usize>)> = Vec::new();
        for (i, job) in wave.iter().enumerate() {
            match job {
                Job::Step(at) => {
                    let step = &phase.steps[*at];
                    self.step(step);
                    let mut inside = Vec::new();
                    for part in std::iter::once(step).chain(&step.tail) {
                        let reads = read_by(part)
                            .into_iter()
                            .filter(|x| !inside.iter().any(|known: &&Operand| known.is_same(x)));
                        read.extend(reads.filter_map(|x| Some((i, self.plan.range(x)?))));
                        inside.push(&part.output);
                        if part.is_stored {
                            written.push((i, self.plan.range(&part.output).unwrap()));
                        }
                    }
                }
                Job::Commit(at) => {
                    let commit = &phase.commits[*at];
                    commit
                        .reads()
                        .into_iter()
                        .for_each(|operand| self.read(operand));
                    let ranges = |operands: Vec<&Operand>| -> Vec<_> {
                        operands
                            .into_iter()
                            .filter_map(|x| Some((i, self.plan.range(x)?)))
                            .collect()
                    };
                    read.extend(ranges(commit.reads()));
                    written.extend(ranges(commit.writes()));
                }
            }
        }
        for (i, out) in &written {
            for (j, other) in read.iter().chain(&written).filter(|(j, _)| i != j) {
                let is_apart = other.end <= out.start || out.end <= other.start;
                assert!(
                    is_apart,
                    "jobs {i} and {j} of a wave meet: {:?} {:?}",
                    wave[*i], wave[*j]
                );
            }
        }
        for job in wave {
            match job {
                Job::Step(at) => {
                    let step = &phase.steps[*at];
                    for part in std::iter::once(step)
                        .chain(&step.tail)
                        .filter(|p| p.is_stored)
                    {
                        self.write(&part.output);
                    }
                }
                // What a commit leaves is no longer what steps of its phase may read.
                Job::Commit(at) => {
                    for state in phase.commits[*at].writes() {
                        let range = self.plan.range(state).unwrap();
                        self.owner[range].fill(Some(u32::MAX));
                    }
                }
            }
        }
    }

    /// Reads what a step and its tails read.
    fn step(&mut self, step: &Step) {
        let out = self
            .plan
            .range(&step.output)
            .expect("outputs lie in the arena");
        let mut inside = Vec::new();
        for part in std::iter::once(step).chain(&step.tail) {
            for input in read_by(part)
                .into_iter()
                .filter(|x| !inside.iter().any(|known: &&Operand| known.is_same(x)))
            {
                self.read(input);
            }
            inside.push(&part.output);
        }
        if let Kernel::Loop(inner) = &step.kernel {
            // Twice, so that the second step of the loop finds its operands too.
            for _ in 0..2 {
                let arguments = inner.carries.iter().chain(&inner.slices);
                arguments.for_each(|part| self.write(part));
                inner.carries.iter().for_each(|carry| self.read(carry));
                for step in &inner.steps {
                    self.step(step);
                    self.write(&step.output);
                }
                let ends = inner.next.iter().chain(&inner.outputs);
                ends.for_each(|part| self.read(part));
                step.inputs.iter().for_each(|input| self.read(input));
            }
        }
        let is_state = out.start < self.plan.persistent_bytes;
        assert!(!step.is_stored || !is_state, "a launch writes a state");
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

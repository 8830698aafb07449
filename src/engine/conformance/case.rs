//! A few operands, a graph over them, and what comes out on a backend.

use crate::engine::backend::{Backend, Data, LaneIdx, Session, StateValues, Tables};
use crate::engine::cpu::Cpu;
use crate::engine::graph::{Builder, DType, Graph, NodeId};
use crate::engine::op::samples::Input;
use crate::engine::op::{Effect, StateId};
use crate::engine::plan::Plan;
use crate::engine::program::{Init, Program, Section};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Returns the yardstick.
pub(super) fn oracle() -> Cpu<f64> {
    Cpu::new(NonZeroUsize::MIN)
}

/// A program that computes some nodes from some operands once.
pub(super) struct Case {
    pub(super) program: Program,
    pub(super) values: StateValues,
    pub(super) tables: Tables,
    pub(super) outputs: Vec<StateId>,
}

impl Case {
    /// Declares a state or table per input, and stores every node that `emit` returns.
    pub(super) fn new(
        inputs: &[Input],
        emit: impl FnOnce(&mut Builder<'_>, &[NodeId]) -> Vec<NodeId>,
    ) -> Self {
        let mut program = Program::default();
        let (mut values, mut tables) = (StateValues::new(), Tables::default());
        let mut graph = Graph::default();
        let mut b = Builder::new(&mut graph);
        let mut operands = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let (name, shape) = (format!("input {k}"), input.shape.clone());
            if input.is_table {
                let id = program.table(&name, shape, input.dtype);
                tables.insert(id, Arc::new(data_of(input)));
                operands.push(program.read_table(&mut b, id));
            } else {
                let id = program.state(&name, shape, input.dtype, Init::Host);
                values.insert(id, data_of(input));
                operands.push(program.read(&mut b, id));
            }
        }
        let nodes = emit(&mut b, &operands);
        let mut outputs = Vec::new();
        for (k, node) in nodes.iter().enumerate() {
            let (shape, dtype) = (b.shape(*node), b.dtype(*node));
            // A state is never narrower than F32: what is rounded is widened again.
            let dtype = if dtype.is_real() { DType::F32 } else { dtype };
            outputs.push(program.state(&format!("output {k}"), shape, dtype, Init::Zero));
        }
        program.phase(Section::Begin, "case", 1, |program, b| {
            *b.graph() = graph;
            let store = |(node, id): (&NodeId, &StateId)| {
                let value = b.cast(*node, program.states[id.0 as usize].dtype);
                Effect::Store {
                    state: *id,
                    value,
                    guard: None,
                }
            };
            nodes.iter().zip(&outputs).map(store).collect()
        });
        Self {
            program,
            values,
            tables,
            outputs,
        }
    }

    /// Runs it as the backend lowers it.
    pub(super) fn run(&self, backend: &dyn Backend) -> Vec<Data> {
        self.run_plan(backend, backend.lower(&self.program))
    }

    /// Runs a plan of its program.
    pub(super) fn run_plan(&self, backend: &dyn Backend, plan: Plan) -> Vec<Data> {
        let mut session = self.open(backend, plan);
        session.train(0).expect("the device works");
        let read = |id: &StateId| session.read(LaneIdx(0), *id).expect("the device works");
        self.outputs.iter().map(read).collect()
    }

    /// Opens a session of one live, loaded lane.
    pub(super) fn open(&self, backend: &dyn Backend, plan: Plan) -> Box<dyn Session> {
        let mut session = backend
            .open(Arc::new(plan), &self.tables, 1)
            .expect("samples are small");
        session
            .load(LaneIdx(0), &self.values)
            .expect("every input has its values");
        session.set_live(LaneIdx(0), true);
        session
    }
}

/// The elements of an operand as a backend takes them.
pub(super) fn data_of(input: &Input) -> Data {
    match input.dtype {
        DType::F32 | DType::Tf32 | DType::Bf16 => {
            Data::F32(input.values.iter().map(|value| *value as f32).collect())
        }
        DType::F64 => Data::F64(input.values.clone()),
        DType::I32 => Data::I32(input.values.iter().map(|value| *value as i32).collect()),
    }
}

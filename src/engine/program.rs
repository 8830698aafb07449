//! A training program: mutable states, shared tables, and phases that read and change them.
//!
//! # Invariants
//! - A phase reads states as of its start and commits its effects at its end, in order.
//! - Phases, their repeats and their shapes are structural; everything that depends on data is a
//!   guard of an effect.
//! - Two programs with equal digests compute the same function of their states and tables.

use super::casts;
use super::graph::{Builder, DType, Graph, NodeId, Shape};
use super::op::{Effect, Leaf, Matrix, Op, StateId, TableId};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;

/// What a state holds when a run enters a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Init {
    /// Zeros.
    Zero,
    /// One value everywhere, as f64 bits.
    Fill(u64),
    /// Values that the host must give: weights, seeds, lane parameters.
    Host,
}

/// A mutable tensor; one copy per lane.
#[derive(Debug, Clone, PartialEq)]
pub struct StateDecl {
    /// Stable name.
    pub name: String,
    /// Shape without the lane axis.
    pub shape: Shape,
    /// Type.
    pub dtype: DType,
    /// First value.
    pub init: Init,
}

/// A constant tensor shared by all lanes of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct TableDecl {
    /// Stable name.
    pub name: String,
    /// Shape.
    pub shape: Shape,
    /// `F32`, `F64` or `I32`.
    pub dtype: DType,
}

/// A graph and what it does to states, run `repeats` times in a row.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Stable name.
    pub name: String,
    /// How often per visit.
    pub repeats: usize,
    /// Values.
    pub graph: Graph,
    /// Changes, in order.
    pub effects: Vec<Effect>,
    /// Whether it acts or evaluates rather than learns.
    pub acts: bool,
}

impl Phase {
    /// Returns every node that some effect reads.
    pub fn roots(&self) -> Vec<NodeId> {
        self.effects.iter().flat_map(Effect::reads).collect()
    }
}

/// The parts of a program, in the order of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// Once, when a run enters its lane.
    Init,
    /// At the start of every epoch.
    Begin,
    /// `n_cycles` times an epoch.
    Cycle,
    /// At the end of every epoch.
    Evaluate,
}

/// All sections, in order.
pub const SECTIONS: [Section; 4] = [
    Section::Init,
    Section::Begin,
    Section::Cycle,
    Section::Evaluate,
];

/// A complete training program of one run.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Mutable tensors.
    pub states: Vec<StateDecl>,
    /// Shared constants.
    pub tables: Vec<TableDecl>,
    /// States that hold parameters read by the model, cast whole in bf16.
    pub blocks: Vec<StateId>,
    /// Cycles an epoch.
    pub n_cycles: usize,
    init: Vec<Phase>,
    begin: Vec<Phase>,
    cycle: Vec<Phase>,
    evaluate: Vec<Phase>,
}

impl Program {
    /// Starts a program of `n_cycles` cycles an epoch.
    pub fn new(n_cycles: usize) -> Self {
        Self {
            n_cycles,
            ..Self::default()
        }
    }

    /// Declares a state.
    pub fn state(
        &mut self,
        name: &str,
        shape: impl Into<Shape>,
        dtype: DType,
        init: Init,
    ) -> StateId {
        let id = StateId(u32::try_from(self.states.len()).expect("few states"));
        self.states.push(StateDecl {
            name: name.to_owned(),
            shape: shape.into(),
            dtype,
            init,
        });
        id
    }

    /// Declares a table.
    pub fn table(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> TableId {
        let id = TableId(u32::try_from(self.tables.len()).expect("few tables"));
        self.tables.push(TableDecl {
            name: name.to_owned(),
            shape: shape.into(),
            dtype,
        });
        id
    }

    /// Reads a declared state in a phase under construction.
    pub fn read(&self, b: &mut Builder<'_>, id: StateId) -> NodeId {
        let state = &self.states[id.0 as usize];
        b.state(id, &state.shape, state.dtype)
    }

    /// Reads a declared table in a phase under construction.
    pub fn read_table(&self, b: &mut Builder<'_>, id: TableId) -> NodeId {
        let table = &self.tables[id.0 as usize];
        b.table(id, &table.shape, table.dtype)
    }

    /// Returns the state called `name`.
    pub fn state_named(&self, name: &str) -> Option<StateId> {
        let idx = self.states.iter().position(|state| state.name == name)?;
        Some(StateId(u32::try_from(idx).expect("few states")))
    }

    /// Returns the table called `name`.
    pub fn table_named(&self, name: &str) -> Option<TableId> {
        let idx = self.tables.iter().position(|table| table.name == name)?;
        Some(TableId(u32::try_from(idx).expect("few tables")))
    }

    /// Appends a phase.
    ///
    /// - `build`: emits the graph and returns the effects.
    ///
    /// # Panics
    /// If the graph or an effect does not fit the declarations, a defect of the model.
    pub fn phase(
        &mut self,
        section: Section,
        name: &str,
        repeats: usize,
        build: impl FnOnce(&Self, &mut Builder<'_>) -> Vec<Effect>,
    ) {
        let mut graph = Graph::default();
        let effects = build(self, &mut Builder::new(&mut graph));
        let phase = Phase {
            name: name.to_owned(),
            repeats,
            graph,
            effects,
            acts: section == Section::Evaluate,
        };
        self.check(&phase);
        self.section_mut(section).push(phase);
    }

    /// Appends a phase that acts in the training environment.
    ///
    /// # Panics
    /// As [`Program::phase`].
    pub fn acting_phase(
        &mut self,
        section: Section,
        name: &str,
        repeats: usize,
        build: impl FnOnce(&Self, &mut Builder<'_>) -> Vec<Effect>,
    ) {
        self.phase(section, name, repeats, build);
        if let Some(phase) = self.section_mut(section).last_mut() {
            phase.acts = true;
        }
    }

    /// Returns the phases of a section.
    pub fn section(&self, section: Section) -> &[Phase] {
        match section {
            Section::Init => &self.init,
            Section::Begin => &self.begin,
            Section::Cycle => &self.cycle,
            Section::Evaluate => &self.evaluate,
        }
    }

    fn section_mut(&mut self, section: Section) -> &mut Vec<Phase> {
        match section {
            Section::Init => &mut self.init,
            Section::Begin => &mut self.begin,
            Section::Cycle => &mut self.cycle,
            Section::Evaluate => &mut self.evaluate,
        }
    }

    /// Returns the program of an arm: the same one with explicit casts.
    ///
    /// - `train`: type of the learning phases.
    /// - `act`: type of the acting and evaluating phases, usually the same.
    #[must_use]
    pub fn with_precision(&self, train: DType, act: DType) -> Self {
        let mut copy = self.clone();
        for section in SECTIONS {
            for phase in copy.section_mut(section) {
                let dtype = if phase.acts { act } else { train };
                let roots = phase.roots();
                let (graph, images) = casts::apply(&phase.graph, &roots, dtype, &self.blocks);
                let image: HashMap<NodeId, NodeId> = roots.into_iter().zip(images).collect();
                phase.effects = phase
                    .effects
                    .iter()
                    .map(|e| e.map_nodes(|id| image[&id]))
                    .collect();
                phase.graph = graph;
            }
        }
        copy
    }

    /// Digests everything structural: hexadecimal SHA-256. Equal digests may share a pack.
    pub fn digest(&self) -> String {
        let mut text = format!(
            "{:?}{:?}{:?}{}",
            self.states, self.tables, self.blocks, self.n_cycles
        );
        for section in SECTIONS {
            for phase in self.section(section) {
                let _ = write!(text, "{section:?}{phase:?}");
            }
        }
        let mut hex = String::new();
        for byte in Sha256::digest(text.as_bytes()) {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// Panics unless a phase fits the declarations and its effects fit their states.
    fn check(&self, phase: &Phase) {
        if let Err(error) = phase.graph.verify() {
            panic!("{}: {error}", phase.name);
        }
        for node in phase.graph.nodes() {
            let Op::Leaf(leaf) = &node.op else { continue };
            let (name, declared) = match leaf {
                Leaf::State { id, .. } => {
                    let state = &self.states[id.0 as usize];
                    (&state.name, (&state.shape, state.dtype))
                }
                Leaf::Table { id, .. } => {
                    let table = &self.tables[id.0 as usize];
                    (&table.name, (&table.shape, table.dtype))
                }
                Leaf::Argument { .. } => panic!("{}: an argument outside a loop", phase.name),
                Leaf::Constant { .. } => continue,
            };
            let got = (&node.shape, node.dtype);
            assert!(
                got == declared,
                "{}: {name} is {declared:?}, read as {got:?}",
                phase.name
            );
        }
        for effect in &phase.effects {
            Fit {
                program: self,
                phase,
            }
            .effect(effect);
        }
    }
}

/// Checks of one phase's effects; each panics with what does not fit.
struct Fit<'a> {
    program: &'a Program,
    phase: &'a Phase,
}

impl Fit<'_> {
    // tidy: long, because it is one match with an arm per effect.
    fn effect(&self, effect: &Effect) {
        match effect {
            Effect::Store {
                state,
                value,
                guard,
            } => {
                let (shape, dtype) = self.state(*state);
                self.node("value of a store", *value, shape, dtype);
                self.guard(*guard);
            }
            Effect::RingPush {
                state,
                row,
                value,
                guard,
            } => {
                let (shape, dtype) = self.state(*state);
                assert!(shape.rank() > 0, "{}: a ring has rows", self.phase.name);
                self.node("pushed row", *value, &Shape(shape.0[1..].to_vec()), dtype);
                self.node("row number", *row, &Shape::default(), DType::I32);
                self.guard(*guard);
            }
            Effect::Adam {
                param,
                m,
                v,
                target,
                grad,
                grad_scale,
                step,
                lr,
                beta1,
                beta2,
                eps,
                weight_decay,
                guard,
            } => {
                let (shape, dtype) = self.state(*param);
                for block in [*m, *v].into_iter().chain(target.map(|(block, _)| block)) {
                    assert_eq!(
                        self.state(block),
                        (shape, dtype),
                        "{}: Adam",
                        self.phase.name
                    );
                }
                self.node("gradient", *grad, shape, DType::F32);
                self.node("step", *step, &Shape::default(), DType::I32);
                for id in [grad_scale, lr, beta1, beta2, eps, weight_decay] {
                    self.scalar("coefficient", *id);
                }
                if let Some((_, tau)) = target {
                    self.scalar("rate of the target", *tau);
                }
                self.guard(*guard);
            }
            Effect::SpectralNorm {
                param,
                u,
                v,
                matrices,
                sigma_max,
                n_iterations,
                guard,
            } => {
                let [param, u, v] = [*param, *u, *v].map(|id| self.state(id).0.n_elements());
                let fits = |m: &Matrix| {
                    m.offset + m.rows * m.cols <= param
                        && m.u_offset + m.rows <= u
                        && m.v_offset + m.cols <= v
                };
                let all_fit = matrices.iter().all(fits) && *n_iterations > 0;
                assert!(
                    all_fit,
                    "{}: {matrices:?} of {param} elements",
                    self.phase.name
                );
                self.scalar("bound", *sigma_max);
                self.guard(*guard);
            }
        }
    }

    fn state(&self, id: StateId) -> (&Shape, DType) {
        let state = &self.program.states[id.0 as usize];
        (&state.shape, state.dtype)
    }

    fn node(&self, what: &str, id: NodeId, shape: &Shape, dtype: DType) {
        let node = self.phase.graph.node(id);
        assert!(
            node.shape == *shape && node.dtype == dtype,
            "{}: the {what} is {:?}{}, expected {dtype:?}{shape}",
            self.phase.name,
            node.dtype,
            node.shape
        );
    }

    fn scalar(&self, what: &str, id: NodeId) {
        self.node(what, id, &Shape::default(), DType::F32);
    }

    fn guard(&self, guard: Option<NodeId>) {
        if let Some(guard) = guard {
            self.scalar("guard", guard);
        }
    }
}

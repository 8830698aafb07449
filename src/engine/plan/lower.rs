//! From a program to a plan.

use super::arena::{self, Buffer};
use super::{
    BufferIdx, ElementBytes, Job, Kernel, LoopPlan, Operand, PhasePlan, Plan, Source, Step, commit,
    fuse, schedule,
};
use crate::engine::graph::{DType, Graph, NodeId, Shape};
use crate::engine::op::{Layout, Leaf, Op, Recur};
use crate::engine::program::{Phase, Program, SECTIONS};
use std::collections::{HashMap, HashSet};

/// Choices of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerOptions {
    /// Storage widths.
    pub elements: ElementBytes,
    /// Replaces fused ops by their definitions: the oracle.
    pub expand: bool,
    /// Fuses pointwise chains.
    pub fuse: bool,
    /// Runs independent launches side by side, and regions inside the products that feed them.
    pub waves: bool,
}

/// Lowers a program.
pub fn lower(program: &Program, options: LowerOptions) -> Plan {
    let mut lowering = Lowering {
        options,
        buffers: Vec::new(),
        states: Vec::new(),
        constants: Vec::new(),
        constant_of: HashMap::new(),
        now: 0,
        in_loop: false,
    };
    for state in &program.states {
        let operand = lowering.persistent(&state.shape, state.dtype);
        lowering.states.push(operand);
    }
    // Constants are found while lowering, so persistent and transient buffers are told apart by
    // their lifetimes and placed at the end.
    let mut ranges = Vec::new();
    let sections = SECTIONS.map(|section| {
        let mut phases = Vec::new();
        for phase in program.section(section) {
            let first = lowering.buffers.len();
            phases.push(lowering.phase(phase));
            ranges.push(first..lowering.buffers.len());
        }
        phases
    });
    let mut buffers = lowering.buffers;
    let mut base = 0;
    for buffer in buffers
        .iter_mut()
        .filter(|buffer| buffer.last == usize::MAX)
    {
        buffer.offset = base;
        base += arena::align(buffer.bytes);
    }
    let mut lane_bytes = base;
    for range in ranges {
        let (indices, mut transient): (Vec<usize>, Vec<Buffer>) = range
            .filter(|&i| buffers[i].last != usize::MAX)
            .map(|i| (i, buffers[i].clone()))
            .unzip();
        lane_bytes = lane_bytes.max(arena::place(&mut transient, base));
        for (i, buffer) in indices.into_iter().zip(transient) {
            buffers[i] = buffer;
        }
    }
    Plan {
        states: program.states.clone(),
        tables: program.tables.clone(),
        state_operands: lowering.states,
        constants: lowering.constants,
        sections,
        n_cycles: program.n_cycles,
        buffers,
        lane_bytes,
        persistent_bytes: base,
        elements: options.elements,
        digest: program.digest(),
    }
}

struct Lowering {
    options: LowerOptions,
    buffers: Vec<Buffer>,
    states: Vec<Operand>,
    constants: Vec<(Operand, Vec<f64>)>,
    constant_of: HashMap<Leaf, Operand>,
    /// Number of the step under construction; a loop's body shares that of the loop.
    now: usize,
    in_loop: bool,
}

/// What is known about one graph while its nodes are visited.
struct Scope<'g> {
    graph: &'g Graph,
    arguments: Vec<Operand>,
    inside: Vec<bool>,
    /// Node computed straight into a part of a concatenation: `(concat, element offset)`.
    piece_of: HashMap<NodeId, (NodeId, usize)>,
    concat_buffer: HashMap<NodeId, BufferIdx>,
    operand: Vec<Option<Operand>>,
    steps: Vec<Step>,
}

impl Lowering {
    fn buffer(&mut self, bytes: usize, first: usize, last: usize) -> BufferIdx {
        self.buffers.push(Buffer {
            bytes,
            first,
            last,
            offset: 0,
        });
        BufferIdx(u32::try_from(self.buffers.len() - 1).expect("fewer than 2^32 buffers"))
    }

    fn persistent(&mut self, shape: &Shape, dtype: DType) -> Operand {
        let bytes = shape.n_elements() * self.options.elements.of(dtype);
        let buffer = self.buffer(bytes, 0, usize::MAX);
        Operand {
            source: Source::Lane { buffer, offset: 0 },
            shape: shape.clone(),
            dtype,
        }
    }

    fn transient(&mut self, shape: &Shape, dtype: DType) -> Operand {
        let bytes = shape.n_elements() * self.options.elements.of(dtype);
        let buffer = self.buffer(bytes, self.now, self.now);
        Operand {
            source: Source::Lane { buffer, offset: 0 },
            shape: shape.clone(),
            dtype,
        }
    }

    fn touch(&mut self, operand: &Operand) {
        if let Source::Lane { buffer, .. } = operand.source {
            let buffer = &mut self.buffers[buffer.0 as usize];
            buffer.last = buffer.last.max(self.now);
        }
    }

    fn emit(&mut self, steps: &mut Vec<Step>, kernel: Kernel, inputs: Vec<Operand>, out: Operand) {
        for input in &inputs {
            self.touch(input);
        }
        self.touch(&out);
        steps.push(Step {
            kernel,
            inputs,
            output: out,
            is_stored: true,
            head: None,
            tail: Vec::new(),
        });
        if !self.in_loop {
            self.now += 1;
        }
    }

    // tidy: long, because the order of snapshots and reads is one argument.
    fn phase(&mut self, phase: &Phase) -> PhasePlan {
        self.now = 0;
        let first_buffer = self.buffers.len();
        let mut roots = phase.roots();
        let mut effects = phase.effects.clone();
        let expanded;
        let graph = if self.options.expand {
            let (graph, images) = expand(&phase.graph, &roots);
            let of: HashMap<NodeId, NodeId> = roots.iter().copied().zip(images).collect();
            effects = effects
                .iter()
                .map(|effect| effect.map_nodes(|id| of[&id]))
                .collect();
            roots = roots.iter().map(|id| of[id]).collect();
            expanded = graph;
            &expanded
        } else {
            &phase.graph
        };
        let mut scope = self.graph(graph, &roots, Vec::new());
        let mut written: HashSet<BufferIdx> = HashSet::new();
        let mut snapshots: HashMap<NodeId, Operand> = HashMap::new();
        for effect in &effects {
            // What the effect itself writes counts too: a row pushed may be read from its own ring.
            written.extend(
                effect
                    .writes()
                    .iter()
                    .filter_map(|id| self.states[id.0 as usize].buffer()),
            );
            for node in effect.reads() {
                let operand = self.operand(&mut scope, node);
                // Commits read the arena alone, so tables are copied into it.
                let is_stable = operand
                    .buffer()
                    .is_some_and(|buffer| !written.contains(&buffer));
                if !is_stable && !snapshots.contains_key(&node) {
                    let copy = self.transient(&operand.shape, operand.dtype);
                    self.emit(&mut scope.steps, Kernel::Copy, vec![operand], copy.clone());
                    snapshots.insert(node, copy);
                }
            }
        }
        let mut read = HashMap::new();
        for effect in &effects {
            for node in effect.reads() {
                let operand = snapshots
                    .get(&node)
                    .cloned()
                    .unwrap_or_else(|| self.operand(&mut scope, node));
                self.touch(&operand);
                read.insert(node, operand);
            }
        }
        let states = &self.states;
        let commits: Vec<_> = effects
            .iter()
            .map(|effect| {
                commit(
                    effect,
                    |node| read[&node].clone(),
                    |id| states[id.0 as usize].clone(),
                )
            })
            .collect();
        let elements = self.options.elements;
        let mut steps = scope.steps;
        let waves = if self.options.waves {
            schedule::attach(&mut steps, &commits, elements);
            schedule::waves(&steps, &commits, elements)
        } else {
            schedule::sequence(&steps, &commits)
        };
        let phase = PhasePlan {
            name: phase.name.clone(),
            repeats: phase.repeats,
            steps,
            commits,
            waves,
        };
        if self.options.waves {
            self.relive(&phase, first_buffer);
        }
        phase
    }

    /// Restates the lifetimes of a phase's transient buffers in waves.
    ///
    /// - `first_buffer`: the phase's first; what no job keeps in memory becomes empty.
    fn relive(&mut self, phase: &PhasePlan, first_buffer: usize) {
        let is_transient = |buffer: &Buffer| buffer.last != usize::MAX;
        for buffer in self.buffers[first_buffer..]
            .iter_mut()
            .filter(|b| is_transient(b))
        {
            (buffer.first, buffer.last) = (usize::MAX, 0);
        }
        let buffers = &mut self.buffers;
        for (wave, jobs) in phase.waves.iter().enumerate() {
            let mut touch = |operand: &Operand| {
                let Some(idx) = operand.buffer() else { return };
                let buffer = &mut buffers[idx.0 as usize];
                if is_transient(buffer) {
                    buffer.first = buffer.first.min(wave);
                    buffer.last = buffer.last.max(wave);
                }
            };
            for job in jobs {
                match job {
                    Job::Step(i) => schedule::each_operand(&phase.steps[*i], &mut touch),
                    Job::Commit(i) => {
                        let commit = &phase.commits[*i];
                        commit.reads().into_iter().for_each(&mut touch);
                        commit.writes().into_iter().for_each(&mut touch);
                    }
                }
            }
        }
        for buffer in self.buffers[first_buffer..]
            .iter_mut()
            .filter(|b| is_transient(b))
        {
            if buffer.first == usize::MAX {
                *buffer = Buffer {
                    bytes: 0,
                    first: 0,
                    last: 0,
                    offset: 0,
                };
            }
        }
    }

    /// Lowers the nodes that `roots` need.
    fn graph<'g>(
        &mut self,
        graph: &'g Graph,
        roots: &[NodeId],
        arguments: Vec<Operand>,
    ) -> Scope<'g> {
        let needed = graph.reachable(roots);
        let mut n_uses = vec![0; graph.nodes().len()];
        for id in graph.ids().filter(|id| needed[id.idx()]) {
            for input in &graph.node(id).inputs {
                n_uses[input.idx()] += 1;
            }
        }
        for root in roots {
            n_uses[root.idx()] += 1;
        }
        let inside = if self.options.fuse {
            fuse::absorbed(graph, &needed, &n_uses)
        } else {
            vec![false; graph.nodes().len()]
        };
        let mut scope = Scope {
            graph,
            arguments,
            inside,
            piece_of: HashMap::new(),
            concat_buffer: HashMap::new(),
            operand: vec![None; graph.nodes().len()],
            steps: Vec::new(),
        };
        for id in graph.ids().filter(|id| needed[id.idx()]) {
            scope.plan_concat(id);
        }
        for id in graph.ids().filter(|id| needed[id.idx()]) {
            let is_leaf = matches!(graph.node(id).op, Op::Leaf(_));
            if !scope.inside[id.idx()] && !is_leaf {
                self.node(&mut scope, id);
            }
        }
        scope
    }

    fn node(&mut self, scope: &mut Scope<'_>, id: NodeId) {
        let graph = scope.graph;
        let node = graph.node(id);
        if let Some(view) = self.view(scope, id) {
            scope.operand[id.idx()] = Some(view);
            return;
        }
        if let Op::Layout(Layout::Concat { axis: 0 }) = node.op {
            self.concat(scope, id);
            return;
        }
        if fuse::is_fusible(graph, id) {
            let (region, operands) = fuse::build(graph, id, &scope.inside);
            let inputs = operands
                .iter()
                .map(|input| self.operand(scope, *input))
                .collect();
            let out = self.output(scope, id);
            self.emit(
                &mut scope.steps,
                Kernel::Region(region),
                inputs,
                out.clone(),
            );
            scope.operand[id.idx()] = Some(out);
            return;
        }
        let inputs: Vec<Operand> = node
            .inputs
            .iter()
            .map(|input| self.operand(scope, *input))
            .collect();
        let out = self.output(scope, id);
        let kernel = match &node.op {
            Op::Recur(op) => Kernel::Loop(Box::new(self.recur(op, &inputs))),
            other => Kernel::Op(other.clone()),
        };
        self.emit(&mut scope.steps, kernel, inputs, out.clone());
        scope.operand[id.idx()] = Some(out);
    }

    /// Resolves a node that costs nothing.
    fn view(&mut self, scope: &mut Scope<'_>, id: NodeId) -> Option<Operand> {
        let node = scope.graph.node(id);
        let Op::Layout(layout) = &node.op else {
            return None;
        };
        let skip = match layout {
            Layout::Reshape(_) | Layout::StopGradient => 0,
            Layout::Slice { axis: 0, start, .. } => {
                start * scope.graph.node(node.inputs[0]).shape.around(0).2
            }
            Layout::Slice { .. }
            | Layout::Transpose
            | Layout::Pad { .. }
            | Layout::Concat { .. }
            | Layout::Broadcast(_) => return None,
        };
        let mut operand = self.operand(scope, node.inputs[0]);
        match &mut operand.source {
            Source::Lane { offset, .. } => *offset += skip,
            Source::Table(_) if skip == 0 => {}
            Source::Table(_) => return None,
        }
        operand.shape = node.shape.clone();
        Some(operand)
    }

    /// Returns where a node's value lies, materialising constants on demand.
    fn operand(&mut self, scope: &mut Scope<'_>, id: NodeId) -> Operand {
        if let Some(operand) = &scope.operand[id.idx()] {
            return operand.clone();
        }
        let node = scope.graph.node(id);
        let Op::Leaf(leaf) = &node.op else {
            unreachable!("{} is computed before its consumers", node.op.name())
        };
        let operand = match leaf {
            Leaf::State { id, .. } => self.states[id.0 as usize].clone(),
            Leaf::Table { id, shape, dtype } => Operand {
                source: Source::Table(*id),
                shape: shape.clone(),
                dtype: *dtype,
            },
            Leaf::Argument { position, .. } => scope.arguments[*position as usize].clone(),
            Leaf::Constant { shape, bits, dtype } => {
                if let Some(known) = self.constant_of.get(leaf) {
                    known.clone()
                } else {
                    let operand = self.persistent(shape, *dtype);
                    let values = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
                    self.constants.push((operand.clone(), values));
                    self.constant_of.insert(leaf.clone(), operand.clone());
                    operand
                }
            }
        };
        scope.operand[id.idx()] = Some(operand.clone());
        operand
    }

    /// Allocates the output of a computing node, inside a concatenation where it is a part of one.
    fn output(&mut self, scope: &mut Scope<'_>, id: NodeId) -> Operand {
        let node = scope.graph.node(id);
        let Some(&(concat, offset)) = scope.piece_of.get(&id) else {
            return self.transient(&node.shape, node.dtype);
        };
        let buffer = self.concat_buffer(scope, concat);
        Operand {
            source: Source::Lane { buffer, offset },
            shape: node.shape.clone(),
            dtype: node.dtype,
        }
    }

    fn concat_buffer(&mut self, scope: &mut Scope<'_>, concat: NodeId) -> BufferIdx {
        if let Some(buffer) = scope.concat_buffer.get(&concat) {
            return *buffer;
        }
        let node = scope.graph.node(concat);
        let bytes = node.shape.n_elements() * self.options.elements.of(node.dtype);
        let buffer = self.buffer(bytes, self.now, self.now);
        scope.concat_buffer.insert(concat, buffer);
        buffer
    }

    /// Copies the parts that were not computed in place.
    fn concat(&mut self, scope: &mut Scope<'_>, id: NodeId) {
        let node = scope.graph.node(id);
        let buffer = self.concat_buffer(scope, id);
        let mut offset = 0;
        for input in &node.inputs {
            let part = self.operand(scope, *input);
            let source = Source::Lane { buffer, offset };
            offset += part.n();
            if part.source != source {
                let out = Operand {
                    source,
                    shape: part.shape.clone(),
                    dtype: part.dtype,
                };
                self.emit(&mut scope.steps, Kernel::Copy, vec![part], out);
            }
        }
        let source = Source::Lane { buffer, offset: 0 };
        scope.operand[id.idx()] = Some(Operand {
            source,
            shape: node.shape.clone(),
            dtype: node.dtype,
        });
    }

    /// Lowers a loop; everything in it lives for the duration of the loop's step.
    fn recur(&mut self, op: &Recur, inputs: &[Operand]) -> LoopPlan {
        let was_in_loop = std::mem::replace(&mut self.in_loop, true);
        let mut arguments: Vec<Operand> = inputs.to_vec();
        for (position, argument) in arguments
            .iter_mut()
            .enumerate()
            .take(op.n_carries + op.n_sequences)
        {
            let mut shape = argument.shape.clone();
            if position >= op.n_carries {
                shape.0.remove(0);
            }
            *argument = self.transient(&shape, argument.dtype);
        }
        let roots: Vec<NodeId> = op
            .body
            .next
            .iter()
            .chain(&op.body.outputs)
            .copied()
            .collect();
        let mut scope = self.graph(&op.body.graph, &roots, arguments.clone());
        let carries = arguments[..op.n_carries].to_vec();
        let slices = arguments[op.n_carries..op.n_carries + op.n_sequences].to_vec();
        let next = op
            .body
            .next
            .iter()
            .map(|id| {
                let operand = self.operand(&mut scope, *id);
                let is_carry = carries
                    .iter()
                    .any(|carry| carry.buffer() == operand.buffer());
                if !is_carry {
                    return operand;
                }
                // A part of a carry that becomes another carry would be overwritten before it is
                // read.
                let copy = self.transient(&operand.shape, operand.dtype);
                self.emit(&mut scope.steps, Kernel::Copy, vec![operand], copy.clone());
                copy
            })
            .collect();
        let outputs = op
            .body
            .outputs
            .iter()
            .map(|id| self.operand(&mut scope, *id))
            .collect();
        self.in_loop = was_in_loop;
        LoopPlan {
            steps: scope.steps,
            carries,
            slices,
            next,
            outputs,
            n_steps: op.n_steps,
            is_reversed: op.is_reversed,
        }
    }
}

impl Scope<'_> {
    /// Decides which parts of a first-axis concatenation are computed in place.
    fn plan_concat(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if !matches!(node.op, Op::Layout(Layout::Concat { axis: 0 })) {
            return;
        }
        let mut offset = 0;
        for input in &node.inputs {
            let mut root = *input;
            while let Op::Layout(Layout::Reshape(_) | Layout::StopGradient) =
                self.graph.node(root).op
            {
                root = self.graph.node(root).inputs[0];
            }
            let part = self.graph.node(root);
            let is_view_or_leaf = matches!(
                part.op,
                Op::Leaf(_)
                    | Op::Layout(Layout::Slice { axis: 0, .. } | Layout::Concat { axis: 0 })
            );
            if !is_view_or_leaf && part.dtype == node.dtype && !self.inside[root.idx()] {
                self.piece_of.entry(root).or_insert((id, offset));
            }
            offset += self.graph.node(*input).shape.n_elements();
        }
    }
}

/// Replaces fused ops by their definitions, in the bodies of loops too.
///
/// Returns the new graph and the image of each root.
fn expand(graph: &Graph, roots: &[NodeId]) -> (Graph, Vec<NodeId>) {
    let mut target = Graph::default();
    let image = graph.rewrite(roots, &mut target, |target, node, inputs| {
        if let Some(definition) = node.op.expand(target, &inputs) {
            return definition;
        }
        let op = match &node.op {
            Op::Recur(op) => Op::Recur(op.map_body(expand)),
            other => other.clone(),
        };
        target.push(op, inputs).expect("the graph was verified")
    });
    let roots = roots
        .iter()
        .map(|root| image[root.idx()].expect("roots are needed"))
        .collect();
    (target, roots)
}

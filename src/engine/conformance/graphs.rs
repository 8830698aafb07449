//! Random programs: pointwise chains, reductions, products, movements, loops, and every effect.

use crate::engine::backend::{Data, StateValues};
use crate::engine::graph::{Builder, DType, NodeId, Shape};
use crate::engine::op::samples::rnn;
use crate::engine::op::{Effect, Gemm, Layout, Loss, Matrix, Op, ReduceKind, ScalarOp, StateId};
use crate::engine::program::{Init, Program, SECTIONS, Section};
use crate::engine::rng::{Counter, philox, uniform_f32};

/// A reproducible sequence of choices.
pub(super) struct Dice {
    seed: u64,
    n_rolls: u32,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, n_rolls: 0 }
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let counter = Counter {
            block: self.n_rolls,
            step: 0,
            stream: 0,
            draw: 0,
        };
        self.n_rolls += 1;
        philox(counter, self.seed)[0] as usize % n
    }

    /// One of `options`.
    fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }
}

/// Shapes of the F32 states that random graphs read and store.
const SHAPES: [&[usize]; 5] = [&[4, 3], &[3, 4], &[2, 4, 3], &[3], &[]];
/// Elements of the parameter block: a matrix [4, 6], then the cell's W [4, 3], U [3, 3], b [3].
const N_PARAMS: usize = 24 + 12 + 9 + 3;
const N_ROWS: usize = 3;

struct States {
    tensors: Vec<StateId>,
    seed: StateId,
    tick: StateId,
    row: StateId,
    ring: StateId,
    blocks: [StateId; 4],
    vectors: [StateId; 2],
}

/// Builds program number `number`.
pub(crate) fn program(number: u64) -> Program {
    let mut program = Program::default();
    program.n_cycles = 2;
    let states = States {
        tensors: SHAPES
            .iter()
            .enumerate()
            .map(|(k, shape)| program.state(&format!("tensor {k}"), *shape, DType::F32, Init::Host))
            .collect(),
        seed: program.state("seed", [2], DType::I32, Init::Host),
        tick: program.state("tick", [], DType::I32, Init::Zero),
        row: program.state("row", [], DType::I32, Init::Zero),
        ring: program.state("ring", [N_ROWS, 3], DType::F32, Init::Zero),
        blocks: ["param", "m", "v", "average"].map(|name| {
            let init = if name == "param" {
                Init::Host
            } else {
                Init::Fill(0.0_f64.to_bits())
            };
            program.state(name, [N_PARAMS], DType::F32, init)
        }),
        vectors: [("u", 4), ("w", 6)]
            .map(|(name, n)| program.state(name, [n], DType::F32, Init::Fill(1.0_f64.to_bits()))),
    };
    program.blocks = vec![states.blocks[0]];
    let mut dice = Dice::new(number);
    for section in SECTIONS {
        let n_phases = if section == Section::Cycle { 2 } else { 1 };
        for _ in 0..n_phases {
            let (repeats, n_nodes) = (1 + dice.below(2), 4 + dice.below(30));
            program.phase(section, "random", repeats, |program, b| {
                Growth {
                    program,
                    states: &states,
                    dice: &mut dice,
                    nodes: Vec::new(),
                }
                .effects(b, n_nodes)
            });
        }
    }
    program
}

/// First values of run number `run`; a poisoned one holds nothing but NaN.
pub(super) fn values(program: &Program, run: u64, is_poisoned: bool) -> StateValues {
    let mut values = StateValues::new();
    for (id, state) in (0..)
        .zip(&program.states)
        .filter(|(_, state)| state.init == Init::Host)
    {
        let words = |i: usize| {
            let counter = Counter {
                block: i as u32,
                step: id,
                stream: 1,
                draw: 0,
            };
            philox(counter, run)[0]
        };
        let n = state.shape.n_elements();
        let data = if state.dtype == DType::I32 {
            Data::I32((0..n).map(|i| words(i) as i32).collect())
        } else if is_poisoned {
            Data::F32(vec![f32::NAN; n])
        } else {
            Data::F32((0..n).map(|i| 2.0 * uniform_f32(words(i)) - 1.0).collect())
        };
        values.insert(StateId(id), data);
    }
    values
}

struct Growth<'a> {
    program: &'a Program,
    states: &'a States,
    dice: &'a mut Dice,
    /// Every real node so far.
    nodes: Vec<NodeId>,
}

impl Growth<'_> {
    fn any(&mut self) -> NodeId {
        self.nodes[self.dice.below(self.nodes.len())]
    }

    fn effects(&mut self, b: &mut Builder<'_>, n_nodes: usize) -> Vec<Effect> {
        for id in &self.states.tensors {
            self.nodes.push(self.program.read(b, *id));
        }
        let block = self.program.read(b, self.states.blocks[0]);
        let matrix = b.slice(block, 0, 0, 24);
        self.nodes.push(b.reshape(matrix, [4, 6]));
        let (seed, tick) = (
            self.program.read(b, self.states.seed),
            self.program.read(b, self.states.tick),
        );
        self.nodes.push(b.uniform("noise", seed, tick, [4, 3]));
        for _ in 0..n_nodes {
            if let Some(node) = self.grow(b, block) {
                self.nodes.push(node);
            }
        }
        self.finish(b)
    }

    /// Appends a random node; `None` if the operands drawn do not fit.
    fn grow(&mut self, b: &mut Builder<'_>, block: NodeId) -> Option<NodeId> {
        use ScalarOp as S;
        let x = self.any();
        let shape = b.shape(x);
        match self.dice.below(12) {
            0 | 1 => {
                let op = self.dice.of(&[
                    S::Neg,
                    S::Abs,
                    S::Tanh,
                    S::Sigmoid,
                    S::Softplus,
                    S::Relu,
                    S::Floor,
                    S::IsFinite,
                ]);
                Some(b.map(op, &[x]))
            }
            2..=4 => {
                let op = self.dice.of(&[
                    S::Add,
                    S::Sub,
                    S::Mul,
                    S::Max,
                    S::Min,
                    S::Less,
                    S::LessEqual,
                    S::Equal,
                ]);
                let y = self.any();
                b.graph().push(Op::Map(op), vec![x, y]).ok()
            }
            5 => {
                let (y, z) = (self.any(), self.any());
                b.graph().push(Op::Map(S::Select), vec![x, y, z]).ok()
            }
            6 if shape.rank() > 0 => {
                let kind = self
                    .dice
                    .of(&[ReduceKind::Sum, ReduceKind::Max, ReduceKind::ArgMax]);
                let axis = self.dice.below(shape.rank());
                let node = b.reduce(kind, x, axis);
                Some(b.cast(node, DType::F32))
            }
            7 => {
                let (y, trans_a, trans_b) =
                    (self.any(), self.dice.below(2) == 1, self.dice.below(2) == 1);
                b.graph()
                    .push(Op::Gemm(Gemm { trans_a, trans_b }), vec![x, y])
                    .ok()
            }
            8 if shape.rank() > 0 => Some(self.softmax(b, x, &shape)),
            9 => self.moved(b, x, &shape),
            10 if shape.0 == [4, 3] => Some(self.looped(b, x, block)),
            11 => Some(b.stop_gradient(x)),
            _other => None,
        }
    }

    fn softmax(&mut self, b: &mut Builder<'_>, x: NodeId, shape: &Shape) -> NodeId {
        let n_valid = 1 + self.dice.below(shape.0[shape.rank() - 1]);
        let bounded = b.map(ScalarOp::Tanh, &[x]);
        b.loss(Loss::Softmax { n_valid }, &[bounded])
    }

    fn moved(&mut self, b: &mut Builder<'_>, x: NodeId, shape: &Shape) -> Option<NodeId> {
        let axis = self.dice.below(shape.rank().max(1));
        match self.dice.below(6) {
            0 => b.graph().push(Op::Layout(Layout::Transpose), vec![x]).ok(),
            1 if shape.rank() > 0 && shape.0[axis] > 1 => {
                let len = 1 + self.dice.below(shape.0[axis] - 1);
                let start = self.dice.below(shape.0[axis] - len + 1);
                Some(b.slice(x, axis, start, len))
            }
            2 if shape.rank() > 0 => {
                let (before, after) = (self.dice.below(3), self.dice.below(3));
                Some(b.push(
                    Op::Layout(Layout::Pad {
                        axis,
                        before,
                        after,
                    }),
                    &[x],
                ))
            }
            3 if shape.rank() > 0 => {
                let y = self.any();
                b.graph()
                    .push(Op::Layout(Layout::Concat { axis }), vec![x, y, x])
                    .ok()
            }
            4 => {
                let dims: Vec<usize> = [2].iter().chain(&shape.0).copied().collect();
                (shape.rank() < 3).then(|| b.broadcast(x, dims))
            }
            _other => Some(b.flatten(x)),
        }
    }

    fn looped(&mut self, b: &mut Builder<'_>, h: NodeId, block: NodeId) -> NodeId {
        let cell = rnn(2, 4, 3, self.dice.below(2) == 1);
        let mut start = 24;
        let mut part = |b: &mut Builder<'_>, shape: &[usize]| {
            let n = shape.iter().product();
            start += n;
            let flat = b.slice(block, 0, start - n, n);
            b.reshape(flat, shape)
        };
        let (w, u, bias) = (part(b, &[4, 3]), part(b, &[3, 3]), part(b, &[3]));
        let x = b.broadcast(h, [2, 4, 3]);
        let x = b.push(
            Op::Layout(Layout::Pad {
                axis: 2,
                before: 0,
                after: 1,
            }),
            &[x],
        );
        let h = b.map(ScalarOp::Tanh, &[h]);
        let out = b.recur(cell.clone(), &[h, x, w, u, bias]);
        if self.dice.below(2) == 1 {
            cell.carry(b, out, 0)
        } else {
            cell.output(b, out, 0)
        }
    }

    /// Bounds a node and brings it to a shape.
    fn fit(&mut self, b: &mut Builder<'_>, node: NodeId, shape: &Shape) -> NodeId {
        let node = b.map(ScalarOp::Tanh, &[node]);
        if b.shape(node) == *shape {
            return node;
        }
        let mean = b.mean_all(node);
        b.broadcast(mean, shape.clone())
    }

    fn guard(&mut self, b: &mut Builder<'_>) -> Option<NodeId> {
        match self.dice.below(4) {
            0 => None,
            1 => Some(b.scalar(1.0)),
            2 => Some(b.scalar(0.0)),
            _other => {
                let node = self.any();
                let mean = b.mean_all(node);
                let zero = b.scalar(0.0);
                Some(b.less(zero, mean))
            }
        }
    }

    /// Stores, pushes and updates; every state but the block may be written.
    fn finish(&mut self, b: &mut Builder<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (id, dims) in self.states.tensors.iter().zip(SHAPES) {
            let node = self.any();
            let shape = Shape(dims.to_vec());
            // A state of the same shape is often stored as it is: swaps and chains of reads.
            let is_plain = b.shape(node) == shape && self.dice.below(2) == 1;
            let value = if is_plain {
                node
            } else {
                self.fit(b, node, &shape)
            };
            let guard = self.guard(b);
            effects.push(Effect::Store {
                state: *id,
                value,
                guard,
            });
        }
        let tick = self.program.read(b, self.states.tick);
        let next_tick = b.increment(tick);
        let row = self.program.read(b, self.states.row);
        let zero = b.constant(Shape::default(), &[0.0], DType::I32);
        let n_rows = b.constant(Shape::default(), &[N_ROWS as f64], DType::I32);
        let next_row = b.increment(row);
        let inside = b.less(next_row, n_rows);
        let next_row = b.select(inside, next_row, zero);
        let node = self.any();
        let value = self.fit(b, node, &Shape::from([3]));
        let guard = self.guard(b);
        effects.push(Effect::RingPush {
            state: self.states.ring,
            row,
            value,
            guard,
        });
        effects.push(self.adam(b, next_tick));
        let [u, v] = self.states.vectors;
        let matrices = vec![Matrix {
            offset: 0,
            rows: 4,
            cols: 6,
            u_offset: 0,
            v_offset: 0,
        }];
        let (param, sigma_max, guard) = (self.states.blocks[0], b.scalar(1.5), self.guard(b));
        effects.push(Effect::SpectralNorm {
            param,
            u,
            v,
            matrices,
            sigma_max,
            n_iterations: 1,
            guard,
        });
        let (tick, row) = (self.states.tick, self.states.row);
        effects.push(Effect::Store {
            state: tick,
            value: next_tick,
            guard: None,
        });
        effects.push(Effect::Store {
            state: row,
            value: next_row,
            guard: None,
        });
        effects
    }

    fn adam(&mut self, b: &mut Builder<'_>, step: NodeId) -> Effect {
        let [param, m, v, average] = self.states.blocks;
        let node = self.any();
        let grad = self.fit(b, node, &Shape::from([N_PARAMS]));
        let guard = self.guard(b);
        Effect::Adam {
            param,
            m,
            v,
            target: Some((average, b.scalar(0.1))),
            grad,
            grad_scale: b.scalar(1.0),
            step,
            lr: b.scalar(0.01),
            beta1: b.scalar(0.9),
            beta2: b.scalar(0.99),
            eps: b.scalar(1e-8),
            weight_decay: b.scalar(0.01),
            guard,
        }
    }
}

//! A loop over time as one node, differentiated through its body.
//!
//! The output is one flat real tensor, cut by [`Recur::carry`] and [`Recur::output`]:
//! final carries, then the carries as of the start of each step `[T, …]`, then the stacked step
//! outputs `[T, …]`. Carries at the start of each step are always there, since the backward pass
//! reads them.

use super::{shape_error, type_error};
use crate::engine::autodiff::gradients;
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};
use crate::engine::op::{Leaf, Op};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What one step computes: `(carries, sequence slices, invariants) -> (next carries, outputs)`.
#[derive(Debug, Clone)]
pub struct Body {
    /// Arguments are numbered carries first, then slices, then invariants.
    pub graph: Graph,
    /// Next carries, in the order of the carries.
    pub next: Vec<NodeId>,
    /// Values to stack.
    pub outputs: Vec<NodeId>,
    text: String,
}

impl Body {
    /// Finishes a body.
    pub fn new(graph: Graph, next: Vec<NodeId>, outputs: Vec<NodeId>) -> Self {
        let text = format!("{graph:?}next {next:?} outputs {outputs:?}");
        Self {
            graph,
            next,
            outputs,
            text,
        }
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

/// A loop of `n_steps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recur {
    /// One step.
    pub body: Arc<Body>,
    /// Extent T of the time axis, the first of every sequence.
    pub n_steps: usize,
    /// Number of carries.
    pub n_carries: usize,
    /// Number of sequences `[T, …]`.
    pub n_sequences: usize,
    /// Whether time runs from T − 1 down to 0.
    pub is_reversed: bool,
}

impl Recur {
    pub(crate) fn name(&self) -> String {
        let direction = if self.is_reversed {
            "reversed"
        } else {
            "forward"
        };
        format!("recur[{} {direction}]", self.n_steps)
    }

    /// Copies the loop with its body rewritten: `(body, roots) -> (new body, images of the roots)`.
    pub(crate) fn map_body(
        &self,
        rewrite: impl FnOnce(&Graph, &[NodeId]) -> (Graph, Vec<NodeId>),
    ) -> Self {
        let roots: Vec<NodeId> = self
            .body
            .next
            .iter()
            .chain(&self.body.outputs)
            .copied()
            .collect();
        let (graph, mut next) = rewrite(&self.body.graph, &roots);
        let outputs = next.split_off(self.n_carries);
        Self {
            body: Arc::new(Body::new(graph, next, outputs)),
            ..self.clone()
        }
    }

    fn carry_shape(&self, k: usize) -> &Shape {
        &self.body.graph.node(self.body.next[k]).shape
    }

    fn output_shape(&self, k: usize) -> &Shape {
        &self.body.graph.node(self.body.outputs[k]).shape
    }

    /// Returns the element offset of final carry `k` within the output.
    pub fn carry_offset(&self, k: usize) -> usize {
        (0..k).map(|i| self.carry_shape(i).n_elements()).sum()
    }

    /// Returns the element offset of the stacked start-of-step carry `k`.
    pub fn saved_offset(&self, k: usize) -> usize {
        self.carry_offset(self.n_carries) + self.n_steps * self.carry_offset(k)
    }

    /// Returns the element offset of stacked output `k`.
    pub fn output_offset(&self, k: usize) -> usize {
        let before: usize = (0..k).map(|i| self.output_shape(i).n_elements()).sum();
        self.saved_offset(self.n_carries) + self.n_steps * before
    }

    /// Cuts final carry `k` from the loop's output.
    pub fn carry(&self, b: &mut Builder<'_>, out: NodeId, k: usize) -> NodeId {
        let shape = self.carry_shape(k).clone();
        let flat = b.slice(out, 0, self.carry_offset(k), shape.n_elements());
        b.reshape(flat, shape)
    }

    /// Cuts the stacked start-of-step carry `k`, `[T, …]`.
    pub fn saved(&self, b: &mut Builder<'_>, out: NodeId, k: usize) -> NodeId {
        let shape = self.carry_shape(k).clone();
        self.stacked(b, out, self.saved_offset(k), &shape)
    }

    /// Cuts stacked output `k`, `[T, …]`.
    pub fn output(&self, b: &mut Builder<'_>, out: NodeId, k: usize) -> NodeId {
        let shape = self.output_shape(k).clone();
        self.stacked(b, out, self.output_offset(k), &shape)
    }

    fn stacked(&self, b: &mut Builder<'_>, out: NodeId, offset: usize, shape: &Shape) -> NodeId {
        let flat = b.slice(out, 0, offset, self.n_steps * shape.n_elements());
        let dims: Vec<usize> = [self.n_steps].iter().chain(&shape.0).copied().collect();
        b.reshape(flat, dims)
    }

    pub(crate) fn infer(&self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        let fail = |why| Err(shape_error(&name, inputs, why));
        if self.body.next.len() != self.n_carries
            || inputs.len() < self.n_carries + self.n_sequences
        {
            return Err(GraphError::Arity {
                op: name,
                expected: self.n_carries + self.n_sequences,
                got: inputs.len(),
            });
        }
        let sequences = self.n_carries..self.n_carries + self.n_sequences;
        let has_time = |input: &&Node| input.shape.0.first() == Some(&self.n_steps);
        if self.n_steps == 0 || !inputs[sequences.clone()].iter().all(has_time) {
            return fail("the first axis of a sequence is time, at least one step");
        }
        for node in self.body.graph.nodes() {
            let Op::Leaf(leaf) = &node.op else { continue };
            let Leaf::Argument {
                position,
                shape,
                dtype,
            } = leaf
            else {
                if matches!(leaf, Leaf::Constant { .. }) {
                    continue;
                }
                return fail("a body reads its arguments and constants only");
            };
            let position = *position as usize;
            let Some(input) = inputs.get(position) else {
                return fail("every argument of the body needs an operand");
            };
            let skip = usize::from(sequences.contains(&position));
            if input.shape.0[skip..] != shape.0 {
                return fail("operands must fit the body's arguments");
            }
            if input.dtype != *dtype {
                return Err(type_error(
                    &name,
                    inputs,
                    "operands must fit the body's arguments",
                ));
            }
        }
        for (k, input) in inputs[..self.n_carries].iter().enumerate() {
            if input.shape != *self.carry_shape(k) {
                return fail("a carry keeps its shape");
            }
        }
        let is_f32 = |id: &NodeId| self.body.graph.node(*id).dtype == DType::F32;
        let carries_are_f32 = inputs[..self.n_carries]
            .iter()
            .all(|input| input.dtype == DType::F32);
        if !carries_are_f32 || !self.body.next.iter().chain(&self.body.outputs).all(is_f32) {
            return Err(type_error(&name, inputs, "carries and outputs are F32"));
        }
        let n = self.output_offset(self.body.outputs.len());
        Ok((Shape::from([n]), DType::F32))
    }

    /// Runs the loop backwards in time over the body's own gradient.
    pub(crate) fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let inputs = graph.node(node).inputs.clone();
        let is_real: Vec<bool> = inputs
            .iter()
            .map(|input| graph.node(*input).dtype.is_real())
            .collect();
        let reverse = self.backward(&inputs, graph);
        let mut b = Builder::new(graph);
        let n_invariants = inputs.len() - self.n_carries - self.n_sequences;

        // Carries of the backward loop: gradients of the carries, then of the invariants.
        let mut operands = Vec::new();
        for k in 0..self.n_carries {
            operands.push(self.carry(&mut b, grad, k));
        }
        for input in &inputs[self.n_carries + self.n_sequences..] {
            let shape = b.shape(*input);
            let zeros = vec![0.0; shape.n_elements()];
            operands.push(b.constant(shape, &zeros, DType::F32));
        }
        // Sequences: saved carries, own sequences, gradients of saved carries and of outputs.
        for k in 0..self.n_carries {
            operands.push(self.saved(&mut b, node, k));
        }
        operands.extend(&inputs[self.n_carries..self.n_carries + self.n_sequences]);
        for k in 0..self.n_carries {
            operands.push(self.saved(&mut b, grad, k));
        }
        for k in 0..self.body.outputs.len() {
            operands.push(self.output(&mut b, grad, k));
        }
        operands.extend(&inputs[self.n_carries + self.n_sequences..]);
        let out = b.recur(reverse.clone(), &operands);

        let mut result = Vec::new();
        for k in 0..self.n_carries {
            result.push(Some(reverse.carry(&mut b, out, k)));
        }
        for k in 0..self.n_sequences {
            result.push(Some(reverse.output(&mut b, out, k)));
        }
        for k in 0..n_invariants {
            result.push(Some(reverse.carry(&mut b, out, self.n_carries + k)));
        }
        result
            .into_iter()
            .zip(is_real)
            .map(|(part, real)| part.filter(|_| real))
            .collect()
    }

    /// Builds the backward loop; its operands are listed in [`Recur::gradient`].
    fn backward(&self, inputs: &[NodeId], graph: &Graph) -> Self {
        let n_invariants = inputs.len() - self.n_carries - self.n_sequences;
        let n_outputs = self.body.outputs.len();
        let mut body = Graph::default();
        let mut b = Builder::new(&mut body);
        let mut position = 0;
        let mut argument = |b: &mut Builder<'_>, shape: &Shape, dtype: DType| {
            position += 1;
            b.argument(position - 1, shape, dtype)
        };
        let invariants = &inputs[self.n_carries + self.n_sequences..];
        let d_next: Vec<NodeId> = (0..self.n_carries)
            .map(|k| argument(&mut b, self.carry_shape(k), DType::F32))
            .collect();
        let d_invariant: Vec<NodeId> = invariants
            .iter()
            .map(|input| argument(&mut b, &graph.node(*input).shape, DType::F32))
            .collect();
        let mut forward: Vec<NodeId> = (0..self.n_carries)
            .map(|k| argument(&mut b, self.carry_shape(k), DType::F32))
            .collect();
        for input in &inputs[self.n_carries..self.n_carries + self.n_sequences] {
            let node = graph.node(*input);
            let shape = Shape(node.shape.0[1..].to_vec());
            forward.push(argument(&mut b, &shape, node.dtype));
        }
        let d_saved: Vec<NodeId> = (0..self.n_carries)
            .map(|k| argument(&mut b, self.carry_shape(k), DType::F32))
            .collect();
        let d_output: Vec<NodeId> = (0..n_outputs)
            .map(|k| argument(&mut b, self.output_shape(k), DType::F32))
            .collect();
        for input in invariants {
            let node = graph.node(*input);
            forward.push(argument(&mut b, &node.shape, node.dtype));
        }

        // The body again, on the new arguments, then its gradient.
        let roots: Vec<NodeId> = self
            .body
            .next
            .iter()
            .chain(&self.body.outputs)
            .copied()
            .collect();
        let image = self
            .body
            .graph
            .rewrite(&roots, b.graph(), |target, node, operands| {
                if let Op::Leaf(Leaf::Argument { position, .. }) = &node.op {
                    return forward[*position as usize];
                }
                target
                    .push(node.op.clone(), operands)
                    .expect("the body was verified")
            });
        let image_of = |id: &NodeId| image[id.idx()].expect("roots are rewritten");
        let seeds: Vec<(NodeId, NodeId)> = self
            .body
            .next
            .iter()
            .map(image_of)
            .zip(d_next)
            .chain(self.body.outputs.iter().map(image_of).zip(d_output))
            .collect();
        let grads = gradients(b.graph(), &seeds, &forward);
        let mut total = |base: Option<NodeId>, k: usize| match (base, grads[k]) {
            (Some(base), Some(grad)) => b.add(base, grad),
            (Some(base), None) => base,
            (None, Some(grad)) => grad,
            (None, None) => {
                let shape = b.shape(forward[k]);
                let zeros = vec![0.0; shape.n_elements()];
                b.constant(shape, &zeros, DType::F32)
            }
        };
        let mut next: Vec<NodeId> = (0..self.n_carries)
            .map(|k| total(Some(d_saved[k]), k))
            .collect();
        let first = self.n_carries + self.n_sequences;
        next.extend((0..n_invariants).map(|k| total(Some(d_invariant[k]), first + k)));
        let outputs = (0..self.n_sequences)
            .map(|k| total(None, self.n_carries + k))
            .collect();
        Self {
            body: Arc::new(Body::new(body, next, outputs)),
            n_steps: self.n_steps,
            n_carries: self.n_carries + n_invariants,
            n_sequences: 2 * self.n_carries + self.n_sequences + n_outputs,
            is_reversed: !self.is_reversed,
        }
    }
}

//! Which launches can run side by side, and which pointwise regions run inside a matrix product.
//!
//! # Invariants
//! - Nothing here changes a bit: a job only moves to where its operands are ready.
//! - Jobs of a wave read nothing that another of them writes, and write nothing that another
//!   reads or writes.
//! - A tail reads its product's element and operands that are ready before the product begins.

use super::{BufferIdx, Commit, ElementBytes, Kernel, Operand, Region, Source, Step};
use crate::engine::op::Op;
use std::ops::Range;

/// Part of a wave: an index into a phase's steps or commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Job {
    /// A step.
    Step(usize),
    /// A commit.
    Commit(usize),
}

/// Bytes of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    buffer: BufferIdx,
    bytes: Range<usize>,
}

impl Span {
    fn of(operand: &Operand, elements: ElementBytes) -> Option<Self> {
        let Source::Lane { buffer, offset } = operand.source else {
            return None;
        };
        let width = elements.of(operand.dtype);
        let start = offset * width;
        Some(Self {
            buffer,
            bytes: start..start + operand.n() * width,
        })
    }

    fn meets(&self, other: &Self) -> bool {
        self.buffer == other.buffer
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// What a job touches.
struct Access {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl Access {
    fn of_step(step: &Step, elements: ElementBytes) -> Self {
        let mut inside: Vec<&Operand> = vec![&step.output];
        let mut reads: Vec<&Operand> = read_by(step);
        let mut writes: Vec<&Operand> = Vec::new();
        if step.is_stored {
            writes.push(&step.output);
        }
        for tail in &step.tail {
            let outside = |x: &&Operand| !inside.iter().any(|known| known.is_same(x));
            reads.extend(tail.inputs.iter().filter(outside));
            inside.push(&tail.output);
            if tail.is_stored {
                writes.push(&tail.output);
            }
        }
        Self::new(&reads, &writes, elements)
    }

    fn of_commit(commit: &Commit, elements: ElementBytes) -> Self {
        Self::new(&commit.reads(), &commit.writes(), elements)
    }

    fn new(reads: &[&Operand], writes: &[&Operand], elements: ElementBytes) -> Self {
        let spans = |operands: &[&Operand]| {
            operands
                .iter()
                .filter_map(|operand| Span::of(operand, elements))
                .collect()
        };
        Self {
            reads: spans(reads),
            writes: spans(writes),
        }
    }

    /// Whether `self` must wait for `earlier`.
    fn follows(&self, earlier: &Self) -> bool {
        let meet = |a: &[Span], b: &[Span]| a.iter().any(|a| b.iter().any(|b| a.meets(b)));
        meet(&self.reads, &earlier.writes)
            || meet(&self.writes, &earlier.reads)
            || meet(&self.writes, &earlier.writes)
    }
}

/// Puts every job into the first wave in which its operands are ready.
pub(crate) fn waves(steps: &[Step], commits: &[Commit], elements: ElementBytes) -> Vec<Vec<Job>> {
    let mut jobs: Vec<(Job, Access)> = Vec::new();
    jobs.extend(
        steps
            .iter()
            .enumerate()
            .map(|(i, step)| (Job::Step(i), Access::of_step(step, elements))),
    );
    jobs.extend(
        commits
            .iter()
            .enumerate()
            .map(|(i, commit)| (Job::Commit(i), Access::of_commit(commit, elements))),
    );
    // Tails wait for operands that later steps in the list may write, so the list is walked in an
    // order in which every writer of a transient comes before its readers.
    let order = ordered(&jobs);
    let mut wave_of = vec![0; jobs.len()];
    let mut waves: Vec<Vec<Job>> = Vec::new();
    for (at, &i) in order.iter().enumerate() {
        let wave = order[..at]
            .iter()
            .filter(|&&j| jobs[i].1.follows(&jobs[j].1))
            .map(|&j| wave_of[j] + 1)
            .max()
            .unwrap_or(0);
        wave_of[i] = wave;
        if waves.len() <= wave {
            waves.resize(wave + 1, Vec::new());
        }
        waves[wave].push(jobs[i].0);
    }
    waves
}

/// One wave a job, in order: for backends that run one after another.
pub(crate) fn sequence(steps: &[Step], commits: &[Commit]) -> Vec<Vec<Job>> {
    let steps = (0..steps.len()).map(|i| vec![Job::Step(i)]);
    steps
        .chain((0..commits.len()).map(|i| vec![Job::Commit(i)]))
        .collect()
}

/// Orders jobs so that the writer of a value comes before its readers; stable otherwise.
///
/// Tails wait for what steps behind theirs compute. Steps write transients only, each once, so
/// whoever writes what a job reads comes first; states are written by commits, which stay behind
/// all steps.
fn ordered(jobs: &[(Job, Access)]) -> Vec<usize> {
    let mut order = Vec::with_capacity(jobs.len());
    let mut is_placed = vec![false; jobs.len()];
    for i in 0..jobs.len() {
        place(jobs, i, &mut is_placed, &mut order);
    }
    order
}

fn place(jobs: &[(Job, Access)], i: usize, is_placed: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut is_placed[i], true) {
        return;
    }
    let reads = &jobs[i].1.reads;
    for (j, (job, access)) in jobs.iter().enumerate() {
        let writes = || access.writes.iter();
        let feeds =
            matches!(job, Job::Step(_)) && reads.iter().any(|r| writes().any(|w| r.meets(w)));
        if feeds && j != i {
            place(jobs, j, is_placed, order);
        }
    }
    order.push(i);
}

/// Moves pointwise regions into the matrix products that feed them.
///
/// What nobody reads afterwards is not stored at all.
pub(crate) fn attach(steps: &mut Vec<Step>, commits: &[Commit], elements: ElementBytes) {
    let mut heads: Vec<Option<Step>> = std::mem::take(steps).into_iter().map(Some).collect();
    for i in 0..heads.len() {
        let Some(host) = host_of(&heads, i, elements) else {
            continue;
        };
        let tail = heads[i].take().expect("found above");
        let host = heads[host].as_mut().expect("a host is a head");
        host.tail.push(tail);
    }
    *steps = heads.into_iter().flatten().collect();
    attach_heads(steps, commits, elements);
    drop_unread(steps, commits, elements);
}

/// Operands that a step reads from memory: those of its head in place of the first.
pub(crate) fn read_by(step: &Step) -> Vec<&Operand> {
    match &step.head {
        Some(head) => head.inputs.iter().chain(&step.inputs[1..]).collect(),
        None => step.inputs.iter().collect(),
    }
}

/// Moves regions into the reductions that alone read them.
fn attach_heads(steps: &mut Vec<Step>, commits: &[Commit], elements: ElementBytes) {
    let mut i = 0;
    while i < steps.len() {
        let Some(reader) = only_reader(steps, commits, i, elements) else {
            i += 1;
            continue;
        };
        let head = steps.remove(i);
        // The region came first, so its reader has moved by one.
        steps[reader - 1].head = Some(Box::new(head));
    }
}

/// Finds the reduction that alone reads region `i`.
fn only_reader(
    steps: &[Step],
    commits: &[Commit],
    i: usize,
    elements: ElementBytes,
) -> Option<usize> {
    let region = &steps[i];
    if !matches!(region.kernel, Kernel::Region(_)) || !region.tail.is_empty() {
        return None;
    }
    let span = Span::of(&region.output, elements)?;
    let reads = |access: Access| access.reads.iter().any(|read| read.meets(&span));
    let ends = |step: &Step| match &step.kernel {
        Kernel::Loop(inner) => {
            let mut ends = inner.next.iter().chain(&inner.outputs);
            ends.any(|end| Span::of(end, elements).is_some_and(|end| end.meets(&span)))
        }
        Kernel::Region(_) | Kernel::Op(_) | Kernel::Copy => false,
    };
    let mut readers = (0..steps.len())
        .filter(|&j| j != i && (reads(Access::of_step(&steps[j], elements)) || ends(&steps[j])));
    let reader = readers.next()?;
    let is_alone = readers.next().is_none()
        && !commits
            .iter()
            .any(|commit| reads(Access::of_commit(commit, elements)));
    let reduces = matches!(steps[reader].kernel, Kernel::Op(Op::Reduce(_)))
        && steps[reader].head.is_none()
        && steps[reader].inputs[0].is_same(&region.output);
    (is_alone && reduces && reader > i).then_some(reader)
}

/// Finds the product whose element region `i` can go on with.
fn host_of(heads: &[Option<Step>], i: usize, elements: ElementBytes) -> Option<usize> {
    let step = heads[i].as_ref()?;
    let Kernel::Region(region) = &step.kernel else {
        return None;
    };
    let candidates = step.inputs.iter().enumerate().filter(|(k, input)| {
        is_identity(region, *k) && input.n() == step.output.n() && input.buffer().is_some()
    });
    for (_, input) in candidates {
        let found = heads[..i].iter().enumerate().rev().find(|(_, head)| {
            head.as_ref().is_some_and(|head| {
                is_product(head)
                    && std::iter::once(&head.output)
                        .chain(head.tail.iter().map(|tail| &tail.output))
                        .any(|out| out.is_same(input))
            })
        });
        let Some((host, head)) = found else { continue };
        let head = head.as_ref().expect("found above");
        let inside: Vec<&Operand> = std::iter::once(&head.output)
            .chain(head.tail.iter().map(|tail| &tail.output))
            .collect();
        let waits = |(k, other): (usize, &Operand)| {
            if inside.iter().any(|known| known.is_same(other)) {
                return !is_identity(region, k);
            }
            Span::of(other, elements).is_some_and(|span| depends(heads, &span, host, i, elements))
        };
        if !step.inputs.iter().enumerate().any(waits) {
            return Some(host);
        }
    }
    None
}

/// Whether what lies at `span` is computed from the results of `host`, by heads up to `end`.
fn depends(
    heads: &[Option<Step>],
    span: &Span,
    host: usize,
    end: usize,
    elements: ElementBytes,
) -> bool {
    let mut waiting = vec![span.clone()];
    let mut seen = vec![false; heads.len()];
    while let Some(span) = waiting.pop() {
        for (j, head) in heads[..end].iter().enumerate() {
            let Some(head) = head else { continue };
            let access = Access::of_step(head, elements);
            if seen[j] || !access.writes.iter().any(|write| write.meets(&span)) {
                continue;
            }
            if j == host {
                return true;
            }
            seen[j] = true;
            waiting.extend(access.reads);
        }
    }
    false
}

/// Whether operand `k` is walked like the output.
fn is_identity(region: &Region, k: usize) -> bool {
    let mut expected = 1;
    region
        .extents
        .iter()
        .zip(&region.strides[k])
        .rev()
        .all(|(extent, stride)| {
            let fits = *stride == expected || *extent == 1;
            expected *= extent;
            fits
        })
}

fn is_product(step: &Step) -> bool {
    let Kernel::Op(Op::Gemm(op)) = &step.kernel else {
        return false;
    };
    op.extents(&step.inputs[0].shape, &step.inputs[1].shape)
        .is_some_and(|extents| extents.batch == 1)
}

/// Marks results that only tails read.
fn drop_unread(steps: &mut [Step], commits: &[Commit], elements: ElementBytes) {
    let mut read: Vec<Span> = Vec::new();
    for step in steps.iter() {
        read.extend(Access::of_step(step, elements).reads);
        if let Kernel::Loop(inner) = &step.kernel {
            let ends = inner.next.iter().chain(&inner.outputs);
            read.extend(ends.filter_map(|operand| Span::of(operand, elements)));
        }
    }
    for commit in commits {
        read.extend(Access::of_commit(commit, elements).reads);
    }
    let is_read = |operand: &Operand| {
        Span::of(operand, elements).is_some_and(|span| read.iter().any(|r| r.meets(&span)))
    };
    for step in steps.iter_mut().filter(|step| !step.tail.is_empty()) {
        step.is_stored = is_read(&step.output);
        for tail in &mut step.tail {
            tail.is_stored = is_read(&tail.output);
        }
    }
}

/// Calls `visit` for every operand that a step keeps in memory, those of loops included.
pub(crate) fn each_operand(step: &Step, visit: &mut impl FnMut(&Operand)) {
    read_by(step).into_iter().for_each(&mut *visit);
    let mut unstored: Vec<&Operand> = Vec::new();
    for part in std::iter::once(step).chain(&step.tail) {
        if !std::ptr::eq(part, step) {
            let is_kept = |x: &&Operand| !unstored.iter().any(|known| known.is_same(x));
            part.inputs.iter().filter(is_kept).for_each(&mut *visit);
        }
        if part.is_stored {
            visit(&part.output);
        } else {
            unstored.push(&part.output);
        }
    }
    if let Kernel::Loop(inner) = &step.kernel {
        let ends = [&inner.carries, &inner.slices, &inner.next, &inner.outputs];
        ends.into_iter().flatten().for_each(&mut *visit);
        for step in &inner.steps {
            each_operand(step, visit);
        }
    }
}

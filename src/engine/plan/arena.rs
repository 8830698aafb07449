//! Offsets by liveness: greedy by size.
//!
//! Source: Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference",
//! Algorithm 3.

/// Alignment of every buffer.
pub(crate) const ALIGN_BYTES: usize = 256;

/// A piece of a lane's arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Size.
    pub bytes: usize,
    /// First step that touches it.
    pub first: usize,
    /// Last step that touches it.
    pub last: usize,
    /// Start within the lane, a multiple of 256.
    pub offset: usize,
}

impl Buffer {
    fn end(&self) -> usize {
        self.offset + self.bytes
    }

    fn lives_beside(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Rounds up to the alignment.
pub(crate) fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN_BYTES)
}

/// Assigns offsets from `base` on; returns the end of the last buffer, aligned.
pub(crate) fn place(buffers: &mut [Buffer], base: usize) -> usize {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].bytes), i));
    let mut placed: Vec<usize> = Vec::new();
    let mut end = base;
    for i in order {
        let mut rivals: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| buffers[j].lives_beside(&buffers[i]))
            .map(|&j| (buffers[j].offset, align(buffers[j].end())))
            .collect();
        rivals.sort_unstable();
        // The smallest gap that fits; ties to the lowest address.
        let mut best: Option<(usize, usize)> = None;
        let mut cursor = base;
        for (start, stop) in rivals {
            if start >= cursor + buffers[i].bytes
                && best.is_none_or(|(gap, _)| start - cursor < gap)
            {
                best = Some((start - cursor, cursor));
            }
            cursor = cursor.max(stop);
        }
        buffers[i].offset = best.map_or(cursor, |(_, at)| at);
        end = end.max(align(buffers[i].end()));
        placed.push(i);
    }
    end
}

//! A graph as text, one node a line, for goldens and for people.

use super::Graph;
use std::fmt;

/// Complete, unlike `Display`: every field of every op, so that equal text means equal graphs.
impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for id in self.ids() {
            let node = self.node(id);
            writeln!(
                f,
                "%{} = {:?} {:?} {:?}{}",
                id.0, node.op, node.inputs, node.dtype, node.shape
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for id in self.ids() {
            let node = self.node(id);
            write!(f, "%{} = {}(", id.0, node.op.name())?;
            for (position, input) in node.inputs.iter().enumerate() {
                let comma = if position == 0 { "" } else { ", " };
                write!(f, "{comma}%{}", input.0)?;
            }
            writeln!(f, ") {:?}{}", node.dtype, node.shape)?;
        }
        Ok(())
    }
}

//! The graph of steps, as lines with their names.

use std::collections::HashMap;

use crate::terminal::{GraphLine, graph, printable, width};

/// A wider graph is not drawn: the names of its steps would be beside the terminal.
const WIDEST: usize = 40;

/// Steps in order, each with the names of those before it.
pub(in crate::commands) struct Steps<'a>(pub(in crate::commands) &'a [(&'a str, &'a [String])]);

/// The lines of a graph.
pub(in crate::commands) struct StepLines {
    /// Each has the name of its step.
    pub(in crate::commands) lines: Vec<GraphLine>,
    /// Whether edges are drawn; else the graph is too wide.
    pub(in crate::commands) is_graph: bool,
}

/// Draws steps. `mark`: how each is shown.
pub(in crate::commands) fn step_lines(steps: &Steps<'_>, mark: impl Fn(usize) -> char) -> StepLines {
    let positions: HashMap<&str, usize> = steps.0.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
    let of = |names: &[String]| names.iter().filter_map(|name| positions.get(name.as_str()).copied()).collect();
    let parents: Vec<Vec<usize>> = steps.0.iter().map(|(_, before)| of(before)).collect();
    let drawn = graph(&parents, &mark);
    let is_graph = drawn.iter().all(|line| width(&line.text) <= WIDEST);
    let plain = || (0..steps.0.len()).map(|at| GraphLine { text: mark(at).to_string(), node: Some(at) }).collect();
    let mut lines = if is_graph { drawn } else { plain() };
    for line in &mut lines {
        if let Some(at) = line.node {
            line.text = format!("{} {}", line.text, printable(steps.0[at].0));
        }
    }
    StepLines { lines, is_graph }
}

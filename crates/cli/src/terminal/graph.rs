//! A graph drawn as text: a line for each node, edges as lines between columns.
//!
//! ```text
//! ● validate
//! ├─╮
//! ● │ charge
//! │ ● reserve
//! │ ● pack
//! ├─╯
//! ● ship
//! ```
//!
//! Edges run downwards. A column is the track of one or more edges that end in the same node, so nodes with the same
//! child share a track. A track that an edge crosses without joining it interrupts the edge: `─│─`.

/// A line of a drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphLine {
    /// The characters, without spaces at the end.
    pub text: String,
    /// The node of this line; `None`: only edges.
    pub node: Option<usize>,
}

/// Draws nodes, each given by the nodes before it. `mark`: how a node is shown. Edges to nodes that do not exist are
/// left out, and so are those that would close a circle.
pub fn graph(parents: &[Vec<usize>], mark: impl Fn(usize) -> char) -> Vec<GraphLine> {
    let mut drawing = Drawing::new(parents);
    let mut lines = Vec::new();
    while let Some(node) = drawing.next() {
        let at = drawing.track_of(node);
        lines.push(GraphLine { text: drawing.node_line(at, mark(node)), node: Some(node) });
        if let Some(text) = drawing.follow(node, at) {
            lines.push(GraphLine { text, node: None });
        }
    }
    lines
}

struct Drawing {
    children: Vec<Vec<usize>>,
    /// How many parents of a node are not drawn yet.
    open: Vec<usize>,
    is_drawn: Vec<bool>,
    /// The node in which the edges of each track end.
    tracks: Vec<Option<usize>>,
}

impl Drawing {
    fn new(parents: &[Vec<usize>]) -> Drawing {
        let mut children = vec![Vec::new(); parents.len()];
        let mut open = vec![0; parents.len()];
        for (node, before) in parents.iter().enumerate() {
            let mut before: Vec<usize> =
                before.iter().copied().filter(|parent| *parent < parents.len() && *parent != node).collect();
            before.sort_unstable();
            before.dedup();
            open[node] = before.len();
            before.into_iter().for_each(|parent| children[parent].push(node));
        }
        Drawing { children, open, is_drawn: vec![false; parents.len()], tracks: Vec::new() }
    }

    /// The node to draw next: of those whose parents are drawn the one in the leftmost track, so that a chain stays
    /// together; then those without a track in their order. In a circle: the first that is left.
    fn next(&mut self) -> Option<usize> {
        let is_ready = |node: &usize| !self.is_drawn[*node] && self.open[*node] == 0;
        let in_track = self.tracks.iter().flatten().copied().find(is_ready);
        let free = || (0..self.open.len()).find(is_ready);
        let left = || (0..self.open.len()).find(|node| !self.is_drawn[*node]);
        let node = in_track.or_else(free).or_else(left)?;
        self.is_drawn[node] = true;
        Some(node)
    }

    /// The track of a node: that of the edges to it, else a free one.
    fn track_of(&mut self, node: usize) -> usize {
        let at = self.tracks.iter().position(|track| *track == Some(node)).unwrap_or_else(|| self.free_track());
        self.tracks[at] = Some(node);
        at
    }

    fn free_track(&mut self) -> usize {
        let free = self.tracks.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            self.tracks.push(None);
            self.tracks.len() - 1
        })
    }

    fn node_line(&self, at: usize, mark: char) -> String {
        let track = |(track, target): (usize, &Option<usize>)| match target {
            _ if track == at => mark,
            Some(_) => '│',
            None => ' ',
        };
        let cells: Vec<String> = self.tracks.iter().enumerate().map(|it| track(it).to_string()).collect();
        cells.join(" ").trim_end().to_owned()
    }

    /// Moves from a node in a track to its children. The line of edges between, if they are not all straight.
    fn follow(&mut self, node: usize, at: usize) -> Option<String> {
        let children: Vec<usize> = self.children[node].iter().copied().filter(|child| !self.is_drawn[*child]).collect();
        children.iter().for_each(|child| self.open[*child] -= 1);
        let before: Vec<bool> = self.tracks.iter().map(Option::is_some).collect();
        self.tracks[at] = None;
        let mut ends = Vec::new();
        for child in children {
            let track = self.tracks.iter().position(|track| *track == Some(child)).unwrap_or_else(|| {
                // The first child continues straight down.
                let track = if self.tracks[at].is_none() { at } else { self.free_track() };
                self.tracks[track] = Some(child);
                track
            });
            ends.push(track);
        }
        let line = ends.iter().any(|track| *track != at).then(|| self.edges(&before, at, &ends));
        while self.tracks.last() == Some(&None) {
            self.tracks.pop();
        }
        line
    }

    /// Edges from a track to others.
    fn edges(&self, before: &[bool], from: usize, to: &[usize]) -> String {
        let first = to.iter().copied().chain([from]).min().unwrap_or(from);
        let last = to.iter().copied().chain([from]).max().unwrap_or(from);
        let mut text = String::new();
        for track in 0..self.tracks.len().max(before.len()) {
            let (up, down) = (before.get(track) == Some(&true), self.tracks.get(track).is_some_and(Option::is_some));
            let is_inside = first <= track && track <= last;
            text.push(match is_inside && (track == from || to.contains(&track)) {
                true => corner(up, down, track > first, track < last),
                false if up && down => '│',
                false if is_inside => '─',
                false => ' ',
            });
            text.push(if first <= track && track < last { '─' } else { ' ' });
        }
        text.trim_end().to_owned()
    }
}

fn corner(up: bool, down: bool, left: bool, right: bool) -> char {
    match (up, down, left, right) {
        (true, true, true, true) => '┼',
        (true, true, true, false) => '┤',
        (true, true, false, true) => '├',
        (true, false, true, true) => '┴',
        (false, true, true, true) => '┬',
        (true, false, true, false) => '╯',
        (true, false, false, true) => '╰',
        (false, true, true, false) => '╮',
        (false, true, false, true) => '╭',
        (_, _, false, false) => '│',
        _ => '─',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(parents: &[&[usize]]) -> String {
        let parents: Vec<Vec<usize>> = parents.iter().map(|parents| parents.to_vec()).collect();
        let lines = graph(&parents, |node| char::from(b'a' + node as u8));
        lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Chains, diamonds, fans, joins across tracks, several roots.
    #[test]
    fn graphs_are_drawn() {
        assert_eq!(drawn(&[]), "");
        assert_eq!(drawn(&[&[], &[0], &[1]]), "a\nb\nc");
        assert_eq!(drawn(&[&[], &[0], &[0], &[1, 2]]), "a\n├─╮\nb │\n│ c\n├─╯\nd");
        assert_eq!(drawn(&[&[], &[0], &[0], &[0], &[1, 2, 3]]), "a\n├─┬─╮\nb │ │\n│ c │\n├─╯ │\n│   d\n├───╯\ne");
        assert_eq!(drawn(&[&[], &[], &[0, 1]]), "a\n│ b\n├─╯\nc");
        // The edge from d to f passes the track of e.
        assert_eq!(
            drawn(&[&[], &[0], &[0], &[0], &[1, 2], &[1, 3]]),
            "a\n├─┬─╮\nb │ │\n├─│─│─╮\n│ c │ │\n├─╯ │ │\ne   │ │\n    d │\n    ╰─┤\n      f"
        );
    }

    proptest! {
        /// Every node of any graph has one line, after its parents, and a line is as wide as there are open edges.
        #[test]
        fn every_node_has_a_line(edges in prop::collection::vec((0_usize..12, 0_usize..12), 0..40)) {
            let mut parents = vec![Vec::new(); 12];
            for (one, other) in edges {
                parents[one.max(other)].push(one.min(other));
            }
            let lines = graph(&parents, |_| '●');
            let order: Vec<usize> = lines.iter().filter_map(|line| line.node).collect();
            prop_assert_eq!(order.len(), parents.len());
            let at = |node: usize| order.iter().position(|drawn| *drawn == node);
            for (node, parents) in parents.iter().enumerate() {
                for parent in parents.iter().filter(|parent| **parent != node) {
                    prop_assert!(at(*parent) < at(node));
                }
            }
            for line in &lines {
                prop_assert_eq!(line.node.is_some(), line.text.contains('●'), "{}", line.text);
                prop_assert!(line.text.chars().count() < 2 * 40 && !line.text.ends_with(' '));
            }
        }

        /// Circles and unknown nodes are drawn without an end.
        #[test]
        fn any_input_ends(parents in prop::collection::vec(prop::collection::vec(0_usize..9, 0..5), 0..8)) {
            let nodes = graph(&parents, |_| '●').iter().filter(|line| line.node.is_some()).count();
            prop_assert_eq!(nodes, parents.len());
        }
    }
}

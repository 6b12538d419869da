//! Where the nodes of a graph are drawn: in layers, with few crossings and straight edges.
//!
//! The method of Sugiyama, in four steps. A node's layer is the length of the longest path to it. An edge over several
//! layers gets a point in each layer between. The points of a layer are ordered by the average position of their
//! neighbours, forwards and backwards in turn, and the order with the fewest crossings is kept. Then every point moves
//! to the average of its neighbours as far as the order allows, which is a regression with bounds. Pure, and linear in
//! the points for each turn: 300 nodes take a few milliseconds.

/// How often the order of the layers is improved.
const ORDER_TURNS: usize = 12;
/// How often the positions are improved.
const POSITION_TURNS: usize = 8;
/// The most points of long edges. A graph with more is drawn with straight edges.
const POINTS_MAX: usize = 20_000;

/// Where a point is: the layer, and the position within it, in units of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The layer, from 0.
    pub layer: usize,
    /// The position across the layers, from 0.
    pub across: f64,
}

/// Where nodes and edges are drawn.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// The position of each node.
    pub nodes: Vec<Position>,
    /// The points of each edge, its ends included.
    pub edges: Vec<Vec<Position>>,
    /// The number of layers.
    pub layers: usize,
    /// The largest position across the layers.
    pub across: f64,
}

/// The points of nodes and long edges while they are arranged.
struct Points {
    layer: Vec<usize>,
    /// Neighbours in the layer before, and in the layer after.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

/// Arranges a graph with so many nodes. Edges go from a node to one that depends on it; those that name no node, or
/// close a cycle, are drawn but not considered.
pub fn layout(nodes: usize, edges: &[(usize, usize)]) -> Layout {
    let valid: Vec<(usize, usize)> =
        edges.iter().copied().filter(|(from, to)| *from < nodes && *to < nodes && from != to).collect();
    let layer = layers(nodes, &valid);
    let mut points = Points { before: vec![Vec::new(); nodes], after: vec![Vec::new(); nodes], layer };
    let long: usize = valid.iter().map(|(from, to)| points.layer[*to].saturating_sub(points.layer[*from] + 1)).sum();
    let ways: Vec<Vec<usize>> =
        edges.iter().map(|edge| if long > POINTS_MAX { Vec::new() } else { points.way(nodes, *edge) }).collect();
    let across = points.arrange();
    let at = |point: usize| Position { layer: points.layer[point], across: across[point] };
    Layout {
        nodes: (0..nodes).map(at).collect(),
        edges: edges
            .iter()
            .zip(&ways)
            .map(|((from, to), way)| match way.as_slice() {
                [] if *from < nodes && *to < nodes => vec![at(*from), at(*to)],
                way => way.iter().map(|point| at(*point)).collect(),
            })
            .collect(),
        layers: points.layer.iter().max().map_or(0, |last| last + 1),
        across: across.iter().copied().fold(0.0, f64::max),
    }
}

/// The layer of each node: the length of the longest path to it. A node without dependencies is drawn right before the
/// first one that depends on it.
fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut children = vec![Vec::new(); nodes];
    let mut open = vec![0_usize; nodes];
    for (from, to) in edges {
        children[*from].push(*to);
        open[*to] += 1;
    }
    let is_first: Vec<bool> = open.iter().map(|open| *open == 0).collect();
    let mut layer = vec![0_usize; nodes];
    let mut ready: Vec<usize> = (0..nodes).filter(|node| open[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for child in &children[node] {
            layer[*child] = layer[*child].max(layer[node] + 1);
            open[*child] -= 1;
            if open[*child] == 0 {
                ready.push(*child);
            }
        }
    }
    for node in (0..nodes).filter(|node| is_first[*node]) {
        let first = children[node].iter().map(|child| layer[*child]).min();
        layer[node] = first.map_or(0, |first| first.saturating_sub(1));
    }
    layer
}

impl Points {
    /// The points of an edge; none if it does not go forwards.
    fn way(&mut self, nodes: usize, (from, to): (usize, usize)) -> Vec<usize> {
        if from >= nodes || to >= nodes || self.layer[from] >= self.layer[to] {
            return Vec::new();
        }
        let mut way = vec![from];
        for layer in self.layer[from] + 1..self.layer[to] {
            way.push(self.layer.len());
            self.layer.push(layer);
            self.before.push(Vec::new());
            self.after.push(Vec::new());
        }
        way.push(to);
        for pair in way.windows(2) {
            self.after[pair[0]].push(pair[1]);
            self.before[pair[1]].push(pair[0]);
        }
        way
    }

    /// The position of each point across the layers.
    fn arrange(&self) -> Vec<f64> {
        let count = self.layer.iter().max().map_or(0, |last| last + 1);
        let mut layers: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (point, layer) in self.layer.iter().enumerate() {
            layers[*layer].push(point);
        }
        let mut across = vec![0.0; self.layer.len()];
        number(&layers, &mut across);
        let mut best = (self.crossings(&layers, &across), layers.clone());
        for turn in 0..ORDER_TURNS {
            self.order(&mut layers, &mut across, turn % 2 == 0);
            let crossings = self.crossings(&layers, &across);
            if crossings < best.0 {
                best = (crossings, layers.clone());
            }
        }
        let layers = best.1;
        number(&layers, &mut across);
        for turn in 0..POSITION_TURNS {
            self.move_points(&layers, &mut across, turn % 2 == 0);
        }
        let first = across.iter().copied().fold(f64::INFINITY, f64::min);
        across.iter_mut().for_each(|position| *position -= first);
        across
    }

    /// Orders the points of each layer by the average position of their neighbours in the layer before, or after.
    fn order(&self, layers: &mut [Vec<usize>], across: &mut [f64], forwards: bool) {
        let count = layers.len();
        for step in 0..count {
            let layer = &mut layers[if forwards { step } else { count - 1 - step }];
            let neighbours = if forwards { &self.before } else { &self.after };
            let wanted: Vec<f64> =
                layer.iter().map(|point| average(&neighbours[*point], across).unwrap_or(across[*point])).collect();
            let mut order: Vec<usize> = (0..layer.len()).collect();
            order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
            *layer = order.iter().map(|index| layer[*index]).collect();
            for (index, point) in layer.iter().enumerate() {
                across[*point] = index as f64;
            }
        }
    }

    /// The number of crossings between neighbouring layers.
    fn crossings(&self, layers: &[Vec<usize>], across: &[f64]) -> usize {
        layers
            .iter()
            .map(|layer| {
                let mut ends = Vec::new();
                for point in layer {
                    let mut after: Vec<usize> = self.after[*point].iter().map(|end| across[*end] as usize).collect();
                    after.sort_unstable();
                    ends.extend(after);
                }
                inversions(&ends)
            })
            .sum()
    }

    /// Moves the points of each layer towards their neighbours, in the order that they have.
    fn move_points(&self, layers: &[Vec<usize>], across: &mut [f64], forwards: bool) {
        let count = layers.len();
        for step in 0..count {
            let layer = &layers[if forwards { step } else { count - 1 - step }];
            let (near, far) = if forwards { (&self.before, &self.after) } else { (&self.after, &self.before) };
            let wanted: Vec<f64> = layer
                .iter()
                .map(|point| {
                    let near = average(&near[*point], across);
                    near.or_else(|| average(&far[*point], across)).unwrap_or(across[*point])
                })
                .collect();
            for (point, position) in layer.iter().zip(spread(&wanted)) {
                across[*point] = position;
            }
        }
    }
}

/// Numbers the points of each layer.
fn number(layers: &[Vec<usize>], across: &mut [f64]) {
    for layer in layers {
        for (index, point) in layer.iter().enumerate() {
            across[*point] = index as f64;
        }
    }
}

fn average(points: &[usize], across: &[f64]) -> Option<f64> {
    let sum: f64 = points.iter().map(|point| across[*point]).sum();
    (!points.is_empty()).then(|| sum / points.len() as f64)
}

/// The number of pairs in the wrong order, by merging.
fn inversions(values: &[usize]) -> usize {
    fn sorted(values: &[usize]) -> (Vec<usize>, usize) {
        if values.len() < 2 {
            return (values.to_vec(), 0);
        }
        let (left, right) = values.split_at(values.len() / 2);
        let ((left, in_left), (right, in_right)) = (sorted(left), sorted(right));
        let (mut merged, mut found, mut taken) = (Vec::with_capacity(values.len()), in_left + in_right, 0);
        for value in right {
            while taken < left.len() && left[taken] <= value {
                merged.push(left[taken]);
                taken += 1;
            }
            found += left.len() - taken;
            merged.push(value);
        }
        merged.extend(&left[taken..]);
        (merged, found)
    }
    sorted(values).1
}

/// The positions nearest to the wanted ones that keep their order and a distance of one.
fn spread(wanted: &[f64]) -> Vec<f64> {
    // Without the distances the positions must not decrease; neighbours that would are put together at their average.
    let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(wanted.len());
    for (index, position) in wanted.iter().enumerate() {
        let mut block = (position - index as f64, 1);
        while let Some((average, size)) = blocks.last().copied().filter(|(average, _)| *average > block.0) {
            block = ((average * size as f64 + block.0 * block.1 as f64) / (size + block.1) as f64, size + block.1);
            blocks.pop();
        }
        blocks.push(block);
    }
    let flat = blocks.iter().flat_map(|(average, size)| std::iter::repeat_n(*average, *size));
    flat.enumerate().map(|(index, position)| position + index as f64).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Edges go forwards, nodes of a layer do not overlap, and a diamond is symmetric.
    #[test]
    fn a_diamond_is_drawn_in_three_layers() {
        let found = layout(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let layers: Vec<usize> = found.nodes.iter().map(|node| node.layer).collect();
        assert_eq!((layers, found.layers), (vec![0, 1, 1, 2], 3));
        assert!((found.nodes[0].across - 0.5).abs() < 0.01 && (found.nodes[3].across - 0.5).abs() < 0.01, "{found:?}");
        assert!((found.nodes[1].across - found.nodes[2].across).abs() >= 1.0);
    }

    /// A long edge has a point in each layer, and crossings that can be avoided are.
    #[test]
    fn long_edges_have_points_and_crossings_are_avoided() {
        let long = layout(4, &[(0, 1), (1, 2), (2, 3), (0, 3)]);
        assert_eq!(long.edges[3].len(), 4);
        let crossed = layout(4, &[(0, 3), (1, 2)]);
        let [a, b, c, d] = [0, 1, 2, 3].map(|node| crossed.nodes[node].across);
        assert_eq!(a < b, d < c);
    }

    /// A cycle, an edge to nowhere and an edge to itself are harmless.
    #[test]
    fn invalid_edges_are_harmless() {
        let found = layout(3, &[(0, 1), (1, 0), (2, 2), (0, 9)]);
        assert_eq!((found.nodes.len(), found.edges.len()), (3, 4));
        assert_eq!(layout(0, &[]).layers, 0);
    }

    /// Nodes of a layer keep their distance, whatever the graph, and 300 nodes are arranged at once.
    #[test]
    fn three_hundred_nodes_are_arranged_without_overlap() {
        let edges: Vec<(usize, usize)> =
            (1..300).flat_map(|node| [(node * 7 / 11, node), (node * 3 / 5, node), (node / 2, node)]).collect();
        let began = Instant::now();
        let found = layout(300, &edges);
        // Generous: the bound is for a mistake in the complexity.
        assert!(began.elapsed() < Duration::from_secs(5));
        for layer in 0..found.layers {
            let mut across: Vec<f64> =
                found.nodes.iter().filter(|node| node.layer == layer).map(|node| node.across).collect();
            across.sort_by(f64::total_cmp);
            assert!(across.windows(2).all(|pair| pair[1] - pair[0] > 0.99), "layer {layer}: {across:?}");
        }
        assert!(edges.iter().all(|(from, to)| from == to || found.nodes[*from].layer < found.nodes[*to].layer));
    }
}

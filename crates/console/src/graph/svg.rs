//! A graph as SVG, from left to right. Colours are classes of the stylesheet; every state has a word as well.

use maud::{Markup, html};

use super::layout::{Layout, Position};
use crate::Url;
use crate::parts::Tone;

/// The size of a node and of the gaps, in pixels.
const WIDTH: f64 = 160.0;
const HEIGHT: f64 = 44.0;
const GAP: f64 = 36.0;
const ROW: f64 = 58.0;
const EDGE: f64 = 8.0;
/// Characters of a name that fit into a node.
const SHOWN: usize = 22;

/// A node as it is drawn.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// A few words below the name: its state.
    pub state: String,
    /// What the state means.
    pub tone: Tone,
    /// What is shown when the pointer rests on it.
    pub title: String,
    /// Where it leads.
    pub link: Option<Url>,
    /// Whether it stands for several parts.
    pub is_stack: bool,
}

/// Draws a graph. `edges` are those that the layout was made of.
pub fn draw(label: &str, nodes: &[Node], edges: &[(usize, usize)], layout: &Layout) -> Markup {
    let width = layout.layers as f64 * (WIDTH + GAP) - GAP + 2.0 * EDGE;
    let height = layout.across * ROW + HEIGHT + 2.0 * EDGE;
    let done = |from: usize| nodes.get(from).is_some_and(|node| node.tone == Tone::Good);
    html! {
        div.graph tabindex="0" role="region" aria-label=(label) {
            svg viewBox={ "0 0 " (round(width)) " " (round(height)) } width=(round(width)) height=(round(height)) role="group" aria-label=(label) {
                @for ((from, _), points) in edges.iter().zip(&layout.edges) {
                    path.edge.done[done(*from)] d=(path(points)) fill="none" {}
                }
                @for (node, at) in nodes.iter().zip(&layout.nodes) {
                    @if let Some(link) = &node.link {
                        a href=(link) { (shape(node, *at)) }
                    } @else {
                        (shape(node, *at))
                    }
                }
            }
        }
    }
}

fn shape(node: &Node, at: Position) -> Markup {
    let (x, y) = corner(at);
    html! {
        g.node.(node.tone.class()) transform={ "translate(" (round(x)) " " (round(y)) ")" } {
            title { (node.name) ": " (node.title) }
            @if node.is_stack { rect.below x="4" y="-4" width=(WIDTH) height=(HEIGHT) rx="8" {} }
            rect width=(WIDTH) height=(HEIGHT) rx="8" {}
            circle cx="14" cy="15" r="4" {}
            text.name x="24" y="19" { (short(&node.name)) }
            text.state x="24" y="35" { (short(&node.state)) }
        }
    }
}

/// The upper left corner of a node.
fn corner(at: Position) -> (f64, f64) {
    (EDGE + at.layer as f64 * (WIDTH + GAP), EDGE + at.across * ROW)
}

/// A curve through the points of an edge, from the right side of the first node to the left side of the last one.
fn path(points: &[Position]) -> String {
    let mut path = String::new();
    for pair in points.windows(2) {
        let ((x, y), (to_x, to_y)) = (corner(pair[0]), corner(pair[1]));
        let (x, y, to_y) = (x + WIDTH, y + HEIGHT / 2.0, to_y + HEIGHT / 2.0);
        let middle = (x + to_x) / 2.0;
        let begin =
            if path.is_empty() { format!("M{} {}", round(x), round(y)) } else { format!("L{} {}", round(x), round(y)) };
        path.push_str(&format!(
            "{begin}C{} {} {} {} {} {}",
            round(middle),
            round(y),
            round(middle),
            round(to_y),
            round(to_x),
            round(to_y)
        ));
    }
    path
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The beginning of a text.
fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some(_) => text.chars().take(SHOWN - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::layout;

    /// Names that others have written are escaped, and long ones are cut.
    #[test]
    fn names_are_escaped_and_cut() {
        let name = "<script>alert(1)</script> and more".to_owned();
        let node = |name: &str| Node {
            name: name.to_owned(),
            state: "ready".to_owned(),
            tone: Tone::Busy,
            title: "\"><img src=x>".to_owned(),
            link: Some(Url::link(["tasks", "a b"])),
            is_stack: true,
        };
        let edges = [(0, 1)];
        let svg = draw("Steps", &[node(&name), node("b")], &edges, &layout(2, &edges)).into_string();
        assert!(!svg.contains("<script>") && !svg.contains("<img"), "{svg}");
        assert!(svg.contains("&lt;script&gt;alert(1)&lt;/scr…") && svg.contains("href=\"tasks/a%20b\""), "{svg}");
    }
}

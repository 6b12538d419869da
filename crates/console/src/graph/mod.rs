//! Directed graphs without cycles, drawn as SVG. Terminals have a drawing of their own, in the command line.

mod layout;
mod svg;

pub use layout::{Layout, Position, layout};
pub use svg::{Node, draw};

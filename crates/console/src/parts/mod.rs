//! What pages are made of.

pub mod badge;
pub mod empty;
pub mod filter;
pub mod list;
pub mod plot;
pub mod table;
pub mod tabs;
pub mod value;
pub mod when;

pub use badge::{Tone, badge};
pub use empty::empty;
pub use filter::Filter;
pub use list::facts;
pub use plot::{Plot, sparkline};
pub use table::Table;
pub use tabs::tabs;
pub use value::value;
pub use when::{duration, when};

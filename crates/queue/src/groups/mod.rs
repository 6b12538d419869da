//! Consumer groups: lag, seek, pause, delete.

pub(crate) mod group;
mod pause;

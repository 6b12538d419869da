//! Consumer groups: lag, seek, delete.

pub(crate) mod group;

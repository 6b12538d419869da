//! Writes sent in batches, with an outcome for each.

pub(crate) mod batch;
mod log;
mod pending;
mod sender;
pub(crate) mod writer;

//! Popping under a lease, and acking.

pub(crate) mod ack;
pub(crate) mod ack_outcome;
mod batch;
pub(crate) mod claim;
mod claim_statement;
pub(crate) mod consumer;
pub(crate) mod lease;
pub(crate) mod lease_cache;
pub(crate) mod pop;

//! Waiting for work without missing any: who waits for what, when to poll, and how items reach their waiter.

pub(crate) mod alarm;
pub(crate) mod claim;
pub(crate) mod consumer;
pub(crate) mod group;
mod handover;
pub(crate) mod mode;
mod poll;
mod prefetch;
pub(crate) mod reason;
pub(crate) mod scan_bound;
mod share;
pub(crate) mod timer;

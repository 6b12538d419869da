//! Waiting for work without missing any: the registry of waiters, when to poll, and how items reach a waiter.

pub(crate) mod attached;
pub(crate) mod claim;
pub(crate) mod consumer;
pub(crate) mod group;
mod handover;
pub(crate) mod mode;
mod poll;
pub(crate) mod reason;
pub(crate) mod scan_bound;
pub(crate) mod schedule;
mod share;
pub(crate) mod timer;
pub(crate) mod unanswered;
pub(crate) mod waiting;

//! For operators: configuration, inspection, dead letters, traces, maintenance, monitoring.

pub(crate) mod configure;
pub(crate) mod dead_letters;
pub(crate) mod delete;
pub(crate) mod figures;
pub(crate) mod maintenance;
pub(crate) mod message_counters;
pub(crate) mod message_pages;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod queue_pages;
mod rate;
pub(crate) mod replay;
pub(crate) mod resources;
pub(crate) mod status;
pub(crate) mod traces;

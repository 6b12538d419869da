//! What clients read: tasks and their steps, lists, histories, audits, domain events, investigations and analytics.
//!
//! Every query reads a bounded number of rows and answers a bounded number of bytes, whatever it asks for.

pub(crate) mod analytics;
pub(crate) mod audit;
pub(crate) mod domain_event;
pub(crate) mod figures;
mod history;
pub(crate) mod investigation;
pub(crate) mod list;
mod situation;
pub(crate) mod task;
pub(crate) mod transition;
pub(crate) mod waiting;
pub(crate) mod workers;

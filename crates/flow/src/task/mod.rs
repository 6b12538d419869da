//! The rules of a task, without a database: its states and their transitions, its status, its identity, and what
//! decisions and batches mean for the steps that follow.

pub(crate) mod decision;
pub(crate) mod identity;
pub(crate) mod state;
pub(crate) mod status;

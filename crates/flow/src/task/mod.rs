//! Tasks: their states, status and identity, what decisions and batches mean for the steps that follow, submitting
//! them, waiting for them, and what the engine attends to while they run and after they ended.

pub(crate) mod decision;
pub(crate) mod due;
pub(crate) mod identity;
pub(crate) mod orchestrator;
pub(crate) mod retention;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod stored;
pub(crate) mod submit;
pub(crate) mod wait;

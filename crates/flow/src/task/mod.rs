//! Tasks: submitting them, waiting for them, and what the engine attends to while they run and after they ended.

pub(crate) mod due;
pub(crate) mod orchestrator;
pub(crate) mod retention;
pub(crate) mod submit;
pub(crate) mod wait;

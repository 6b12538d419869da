//! Changes that other parts of the process wait for.

pub(crate) mod change_watch;

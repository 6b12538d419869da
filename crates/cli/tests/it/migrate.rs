//! `reveille migrate`.

//! The database: statements, partitions, encryption, retention.

pub(crate) mod encryption;
pub(crate) mod partition_ref;
pub(crate) mod retention;
pub(crate) mod schedule;
pub(crate) mod statements;

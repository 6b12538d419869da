//! Pushing: from a request to segments in the database, without duplicates.

pub(crate) mod append;
pub(crate) mod balance;
pub(crate) mod dedup_cache;
pub(crate) mod partition_batch;
pub(crate) mod push;
pub(crate) mod push_write;

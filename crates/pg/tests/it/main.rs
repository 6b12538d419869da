//! Everything that needs a real server.

mod embedded;
mod error;
mod failover;
mod migrate;
mod pool;
mod pooler;
mod proxy;
mod snapshot;
mod testing;
mod tls;

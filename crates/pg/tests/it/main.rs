//! Everything that needs a real server.

mod error;
mod migrate;
mod pool;
mod testing;

//! PostgreSQL without preparation.
//!
//! Everything Reveille knows about talking to a PostgreSQL server, and nothing about work:
//!
//! - [`Database`] is a pool (its own, or the application's) that follows the primary of a multi-host URL, works through
//!   a transaction-mode pooler and never prints a password.
//! - [`Error`] says what a caller may do about a failure: [`Error::is_transient`] and [`Error::is_ambiguous`] come from
//!   one table of SQLSTATEs with a reason per row.
//! - [`retry`] is the one retry loop, bounded and jittered.
//! - [`Schema`] and [`Sql`] put the quoted schema into SQL text once, so that nothing depends on `search_path`.
//! - [`migrate`] brings a schema up to date, from any number of processes at once.
//! - [`embedded`] runs a private server; `testing` (feature `testing`) gives every test a schema of its own.
//!
//! Nothing here depends on session state: the same statements run on the application's own pool, inside its own
//! transaction, and through a pooler.

pub mod embedded;
mod error;
pub mod migrate;
mod pool;
pub mod retry;
mod schema;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::{Error, Result, sqlstate};
pub use migrate::{Component, Function, Migration, Migrator};
pub use pool::{Database, Options, Session};
pub use schema::{MAX_IDENTIFIER_BYTES, Schema, Sql};

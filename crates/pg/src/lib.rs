//! Access to PostgreSQL: pool, errors, retries, migrations, an embedded server and test databases.
//!
//! Everything Reveille needs to talk to a PostgreSQL server, and nothing about work:
//!
//! - [`Database`] is a pool (its own, or the application's) that follows the primary of a multi-host URL, works through
//!   a transaction-mode pooler and never prints a password.
//! - [`Error`] tells a caller how to react to a failure: [`Error::is_transient`] and [`Error::is_ambiguous`] come from
//!   one table of SQLSTATEs with a reason per row.
//! - [`retry`] is the one retry loop, bounded and jittered.
//! - [`Schema`] and [`Sql`] render the quoted schema into SQL text once, so that nothing depends on `search_path`.
//! - [`migrate`] brings a schema up to date, from any number of processes at once.
//! - [`embedded`] runs a private server; `testing` (feature `testing`) gives every test a schema of its own.
//!
//! Nothing here depends on session state: the same statements run on the application's own pool, inside its own
//! transaction, and through a pooler.
//!
//! ```no_run
//! use reveille_pg::retry::{Policy, retry};
//! use reveille_pg::{Component, Database, Migration, Migrator, Options, Result, Schema};
//!
//! const NOTES: Migration = Migration { number: 1, name: "create notes", sql: "create table {schema}.note (text text)" };
//!
//! # async fn example() -> Result<()> {
//! let db = Database::connect("postgres://me@first,second/app", Options::default()).await?;
//! let schema = Schema::new("My \"odd\" Schéma")?;
//! let notes = Component { name: "notes", migrations: &[NOTES], functions: &[], vars: Vec::new() };
//! Migrator::new(&schema, vec![notes]).run(&db).await?;
//!
//! let count = schema.sql("select count(*) from {schema}.note");
//! let notes: i64 = retry(&Policy::default(), "count notes", async |_| {
//!     let mut session = db.session().await?;
//!     let notes = sqlx::query_scalar(&count).fetch_one(&mut *session).await?;
//!     session.finish().await?;
//!     Ok(notes)
//! })
//! .await?;
//! # let _ = notes; Ok(()) }
//! ```

pub mod audit;
pub mod embedded;
mod error;
mod log_limit;
pub mod migrate;
mod pool;
pub mod retry;
mod schema;
pub mod shortage;
#[cfg(feature = "testing")]
pub mod testing;

pub use error::{Error, Result, causes, error_counts, sqlstate};
pub use log_limit::LogLimit;
pub use migrate::{Component, Function, Migration, Migrator};
pub use pool::{Database, OLDEST_SERVER, Options, Session, observing, within};
pub use schema::{MAX_IDENTIFIER_BYTES, Schema, Sql};

// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

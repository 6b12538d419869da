//! A database for a test, with no server prepared.
//!
//! [`TestDb`] gives every test a schema of its own on a server that all tests share, so that they run in parallel and
//! none sees another's rows. The first test process starts that server, the others find it, whether they are threads of
//! `cargo test` or processes of `cargo nextest`; it stops by itself ten minutes after its last use, and at the end of
//! `make test`.
//!
//! With `DATABASE_URL` set, that server is used and nothing is started. What a test needs beyond it (a server that can
//! be restarted, a role of its own) is asked for by functions that answer `None` and print that the test is skipped,
//! and why.
//!
//! | environment | meaning |
//! |---|---|
//! | `DATABASE_URL` | test on this server; start nothing |
//! | `REVEILLE_TEST_PG` | the major version of the server to start, e.g. `18` |
//! | `REVEILLE_PG_BIN` | the folder of PostgreSQL programs to start it with |
//! | `REVEILLE_PG_ARCHIVE` | an archive of PostgreSQL to use where none is installed |
//! | `REVEILLE_TEST_SKIPPED` | a file that names the tests that were skipped |
//! | `REVEILLE_UPDATE_SNAPSHOTS` | `1` writes snapshots of schemas instead of comparing them |
//!
//! Functions here panic with a readable message instead of returning errors: there is nothing else for a test to do.

mod address;
mod cleaning;
mod clock;
mod counting;
mod database;
mod example;
mod installation;
mod patience;
mod pooler;
mod prepare;
mod private;
mod proxy;
mod server;
mod short;
mod small_disk;
mod snapshot;

use std::io::Write as _;

pub use clock::WrongClock;
pub use counting::CountingRole;
pub use database::TestDb;
pub use example::{example, printed, promised};
pub use installation::installation_to_start;
pub use patience::{PATIENCE, eventually};
pub use pooler::{Pooler, pooler};
pub use prepare::{prepare_all, sql_files};
pub use private::PrivateCluster;
pub use proxy::{Cut, Mode, Proxy};
pub use small_disk::SmallDisk;
pub use snapshot::{check_snapshot, snapshot};

/// Says on standard error that the running test is skipped, and why. Returns `None`, for the caller to return.
///
/// A test runner hides what a passing test prints, so the line also goes to the file that `REVEILLE_TEST_SKIPPED` names;
/// `make test` shows it at the end.
///
/// ```no_run
/// # fn has_openssl() -> bool { false }
/// fn certificate() -> Option<String> {
///     if !has_openssl() {
///         return reveille_pg::testing::skip("openssl, to make a certificate");
///     }
///     # None
/// }
/// ```
pub fn skip<T>(needs: &str) -> Option<T> {
    let thread = std::thread::current();
    let line = format!("skipped: {} needs {needs}\n", thread.name().unwrap_or("this test"));
    eprint!("{line}");
    if let Some(file) = std::env::var_os("REVEILLE_TEST_SKIPPED") {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        // One write, so that the lines of processes that skip together stay whole.
        let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    None
}

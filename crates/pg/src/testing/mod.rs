//! Test databases, without setup.
//!
//! [`TestDb`] gives every test its own schema on a shared server, so that tests run in parallel and do not see each
//! other's rows. The first test process starts that server and the others find it, whether they are threads of `cargo
//! test` or processes of `cargo nextest`; it stops ten minutes after its last use, and at the end of `make test`.
//!
//! With `DATABASE_URL` set, that server is used and nothing is started. Functions that need more (a server that can be
//! restarted, a superuser) then return `None` and print that the test is skipped, and why.
//!
//! | environment | meaning |
//! |---|---|
//! | `DATABASE_URL` | test on this server; start nothing |
//! | `REVEILLE_TEST_PG` | the major version of the server to start, e.g. `18` |
//! | `REVEILLE_PG_BIN` | the folder of PostgreSQL programs to start it with |
//! | `REVEILLE_PG_ARCHIVE` | an archive of PostgreSQL to use where none is installed |
//! | `REVEILLE_TEST_SKIPPED` | a file to which the skipped tests are appended |
//! | `REVEILLE_UPDATE_SNAPSHOTS` | `1` writes snapshots of schemas instead of comparing them |
//!
//! Functions here panic with a readable message instead of returning errors.

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

/// Prints on standard error that the running test is skipped, and why. Returns `None`, for the caller to return.
///
/// A test runner hides the output of a passing test, so the line is also appended to the file `REVEILLE_TEST_SKIPPED`,
/// which `make test` prints at the end.
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
        // One write, so that lines of concurrent processes do not mix.
        let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    None
}

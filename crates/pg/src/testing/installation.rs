//! The PostgreSQL that tests run on.

use std::env;
use std::path::PathBuf;

use tokio::sync::OnceCell;

use super::server::Folder;
use super::skip;
use crate::embedded::{self, Download, Error, Installation, Wanted};

/// The PostgreSQL for a test that starts servers itself.
///
/// `None`, with a line that the test is skipped, if `DATABASE_URL` is set.
pub async fn installation_to_start() -> Option<Installation> {
    if given_url().is_some() {
        return skip("to start a server, but DATABASE_URL is set");
    }
    Some(installation().await)
}

/// The URL of the server to test on, if set.
pub(super) fn given_url() -> Option<String> {
    variable("DATABASE_URL")
}

/// The PostgreSQL that tests run on, downloaded if none is installed; determined once per process.
pub(super) async fn installation() -> Installation {
    static FOUND: OnceCell<Installation> = OnceCell::const_new();
    let found = FOUND.get_or_try_init(find_or_download).await;
    found.unwrap_or_else(|error| panic!("{}", crate::causes(&error))).clone()
}

async fn find_or_download() -> Result<Installation, Error> {
    let exact = variable("REVEILLE_TEST_PG").map(|text| {
        text.parse().unwrap_or_else(|_| panic!("REVEILLE_TEST_PG must be a major version such as 18, not {text:?}"))
    });
    let wanted = Wanted { exact, bin_dir: variable("REVEILLE_PG_BIN").map(PathBuf::from), ..Wanted::default() };
    match Installation::find(wanted.clone()).await {
        Err(Error::NotFound { .. }) => {
            // Test processes start together; one downloads it for all.
            let _lock = Folder::open().await.lock("download").await;
            let what = Download { wanted, archive: variable("REVEILLE_PG_ARCHIVE").map(PathBuf::from), into: None };
            embedded::obtain(what, |progress| eprintln!("{progress}")).await
        }
        found => found,
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

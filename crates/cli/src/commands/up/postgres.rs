//! The private PostgreSQL of `reveille up`: found or downloaded, and started.

use std::{
    path::{Path, PathBuf},
    pin::pin,
};

use reveille_pg::embedded::{self, Cluster, Download, Installation, Settings, Wanted};

use super::say;
use crate::{config::Embedded, error::Error, shutdown::Shutdown};

/// Starts the server of `data_dir`, getting PostgreSQL first if this machine has none. `None` if a signal came first: then
/// nothing runs that did not run before.
pub(super) async fn start(settings: &Embedded, data_dir: &Path, shutdown: &Shutdown) -> Result<Option<Cluster>, Error> {
    // Data of an earlier start needs the version it was made with, which need not be the newest here.
    let exact = embedded::data_major(data_dir)?;
    let wanted = Wanted { exact, bin_dir: settings.pg_bin.clone(), ..Wanted::default() };
    // A task of its own, because unpacking keeps its thread busy.
    let mut obtaining = tokio::spawn(obtain(wanted, settings.pg_archive.clone()));
    let installation = tokio::select! {
        obtained = &mut obtaining => obtained.expect("it is not aborted and does not panic")?,
        () = shutdown.requested() => {
            obtaining.abort();
            return Ok(None);
        }
    };
    say(format_args!("starting PostgreSQL in {}", data_dir.display()));
    let settings = Settings::new(data_dir).installation(installation);
    let mut starting = pin!(Cluster::start(settings));
    let cluster = tokio::select! {
        started = &mut starting => started?,
        () = shutdown.requested() => {
            if !matches!(embedded::data_major(data_dir), Ok(Some(_))) {
                // The data directory is being made by a program that ends with this future.
                return Ok(None);
            }
            // It may have been started already, and would be left behind.
            say("stopping as soon as PostgreSQL has started; a second Ctrl-C leaves at once");
            starting.await?.stop().await?;
            return Ok(None);
        }
    };
    if cluster.attached() {
        say("it was still running: carrying on with it");
    }
    Ok(Some(cluster))
}

/// A PostgreSQL on this machine, downloaded if there was none.
async fn obtain(wanted: Wanted, archive: Option<PathBuf>) -> Result<Installation, Error> {
    match Installation::find(wanted.clone()).await {
        Err(embedded::Error::NotFound { wanted: versions, .. }) => {
            say(format_args!("PostgreSQL {versions} is not installed here: downloading it, once"));
            let what = Download { wanted, archive, into: None };
            Ok(embedded::download(what, say).await?)
        }
        found => Ok(found?),
    }
}

//! The private PostgreSQL of `reveille up`: found or downloaded, and started.

use std::{
    path::{Path, PathBuf},
    pin::pin,
};

use reveille_pg::embedded::{self, Cluster, Download, Installation, Settings, Wanted};

use crate::{config::Embedded, error::Error, logging::announce, shutdown::Shutdown};

/// Starts the server of `data_dir`, downloading PostgreSQL first if it is not installed. `None` if a signal came first:
/// then no server is left running that was not running before.
pub(super) async fn start(settings: &Embedded, data_dir: &Path, shutdown: &Shutdown) -> Result<Option<Cluster>, Error> {
    // Existing data needs the version that created it, which may not be the newest one installed.
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
    let first = if exact.is_none() { ", for the first time" } else { "" };
    announce(format_args!("starting PostgreSQL in {}{first}", data_dir.display()));
    let settings = Settings::new(data_dir).installation(installation);
    let mut starting = pin!(Cluster::start(settings));
    let cluster = tokio::select! {
        started = &mut starting => started?,
        () = shutdown.requested() => {
            if !matches!(embedded::data_major(data_dir), Ok(Some(_))) {
                // `initdb` is still running, and ends with this future.
                return Ok(None);
            }
            // PostgreSQL may have been started already, and would be left running.
            announce("stopping as soon as PostgreSQL has started; a second Ctrl-C exits at once");
            starting.await?.stop().await?;
            return Ok(None);
        }
    };
    if cluster.attached() {
        announce("PostgreSQL was already running in this directory: using it");
    }
    Ok(Some(cluster))
}

/// The installed PostgreSQL, or a downloaded one if none is installed.
async fn obtain(wanted: Wanted, archive: Option<PathBuf>) -> Result<Installation, Error> {
    match Installation::find(wanted.clone()).await {
        Err(embedded::Error::NotFound { wanted: versions, .. }) => {
            announce(format_args!("PostgreSQL {versions} is not installed: downloading it (only the first time)"));
            let what = Download { wanted, archive, into: None };
            Ok(embedded::download(what, announce).await?)
        }
        found => Ok(found?),
    }
}

//! The private PostgreSQL of `reveille up`: found or downloaded, started, and watched.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use pg::{
    embedded::{self, Cluster, Download, Installation, Settings, Wanted},
    retry::Backoff,
};
use sqlx::{PgPool, postgres::PgListener};
use tokio::time::{sleep, timeout};

use super::say;
use crate::{
    config::Embedded,
    error::{Error, explain},
    shutdown::Shutdown,
};

/// The pauses between looks for a PostgreSQL that has gone.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the watching connection may take to say goodbye.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

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
    let settings = Settings { installation: Some(installation), ..Settings::new(data_dir) };
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

/// Says when PostgreSQL goes away under the server, and when it is back, until `done`.
///
/// It holds one connection that carries nothing: its end is the news, so there is nothing to ask for in between.
///
/// # Cancel safety
/// Dropping it ends the watch.
pub(super) async fn watch(cluster: &Cluster, database: &pg::Database, done: impl Future<Output = ()>) {
    let pool = match database.dedicated("reveille watch", &[]) {
        Ok(pool) => pool,
        Err(error) => {
            tracing::warn!(error = explain(&error), "PostgreSQL is not watched");
            return;
        }
    };
    tokio::select! {
        never = observe(cluster, &pool) => match never {},
        () = done => {}
    }
    // Said goodbye to before PostgreSQL is stopped, so that no connection breaks.
    let _ = timeout(CLOSE_WITHIN, pool.close()).await;
}

async fn observe(cluster: &Cluster, pool: &PgPool) -> Infallible {
    let mut gone = false;
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        if let Ok(mut connection) = PgListener::connect_with(pool).await {
            if gone {
                gone = false;
                tracing::info!("PostgreSQL is back");
            }
            backoff.reset();
            connection.eager_reconnect(false);
            while let Ok(Some(_)) = connection.try_recv().await {}
        }
        if !gone && cluster.pid().is_none() {
            gone = true;
            tracing::error!(
                log = %cluster.log_path().display(),
                "PostgreSQL has stopped by itself; its log may say why. Nothing works until it is back: \
                 stop with Ctrl-C and run `reveille up` again"
            );
        }
        sleep(backoff.pause()).await;
    }
}

//! The private PostgreSQL of `reveille up`: found or downloaded, started, and watched.

use std::{convert::Infallible, path::PathBuf, time::Duration};

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
};

/// The pauses between looks for a PostgreSQL that has gone.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the watching connection may take to say goodbye.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Starts the server of `data_dir`, getting PostgreSQL first if this machine has none.
pub(super) async fn start(settings: &Embedded, data_dir: PathBuf) -> Result<Cluster, Error> {
    let newest = obtain(settings).await?;
    // Data of an earlier start needs the version it was made with, which need not be the newest here. Left open, unless the user
    // insists on certain programs.
    let installation = settings.pg_bin.is_some().then_some(newest);
    say(format_args!("starting PostgreSQL in {}", data_dir.display()));
    let cluster = Cluster::start(Settings { installation, ..Settings::new(data_dir) }).await?;
    if cluster.attached() {
        say("it was still running: carrying on with it");
    }
    Ok(cluster)
}

/// A PostgreSQL on this machine, downloaded if there was none.
async fn obtain(settings: &Embedded) -> Result<Installation, Error> {
    let wanted = Wanted { bin_dir: settings.pg_bin.clone(), ..Wanted::default() };
    match Installation::find(wanted.clone()).await {
        Err(embedded::Error::NotFound { wanted: versions, .. }) => {
            say(format_args!("PostgreSQL {versions} is not installed here: downloading it, once"));
            let what = Download { wanted, releases_url: settings.pg_releases.clone(), into: None };
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

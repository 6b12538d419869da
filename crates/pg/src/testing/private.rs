//! A server of one test, to be restarted, killed or failed over.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::installation::installation;
use super::server::{Folder, server, start};
use super::skip;
use crate::embedded::{self, Cluster, Settings, Signal};

/// How long a server may take to end when it is dropped.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that belongs to one test, with `fsync` on. Stopped and removed when the value is dropped.
#[derive(Debug)]
pub struct PrivateCluster {
    cluster: Cluster,
    folder: Folder,
}

impl PrivateCluster {
    /// Starts a server as a copy of a new one, which takes about a second.
    ///
    /// `None`, with a line that the test is skipped, if `DATABASE_URL` is set.
    pub async fn start() -> Option<PrivateCluster> {
        PrivateCluster::start_with(&[]).await
    }

    /// Starts a server with additional lines of `postgresql.conf`.
    pub async fn start_with(extra: &[(&str, &str)]) -> Option<PrivateCluster> {
        if server().await.given {
            return skip("a server of its own, but DATABASE_URL is set");
        }
        let folder = Folder::open().await;
        folder.keep_alive();
        let home = folder.private_home();
        {
            let _lock = folder.lock("lock").await;
            folder.copy_template(&home).await;
        }
        let cluster = start(settings(&home, extra).await).await;
        Some(PrivateCluster { cluster, folder })
    }

    /// Starts a standby of this server. This server is stopped while its data is copied.
    ///
    /// `select pg_promote()` on the standby promotes it.
    pub async fn standby(&self) -> PrivateCluster {
        let (home, pgdata) = (self.folder.private_home(), self.pgdata());
        self.stop().await.expect("stop the primary");
        self.folder.copy(self.data_dir(), &home).await;
        self.start_again().await.expect("start the primary again");
        let _ = std::fs::remove_file(home.join("port"));
        let data = home.join(pgdata.file_name().expect("the data directory has a name"));
        std::fs::write(data.join("standby.signal"), "").expect("make the copy a standby");
        let primary = self.url().parse::<sqlx::postgres::PgConnectOptions>().expect("the primary's URL");
        let password = std::fs::read_to_string(home.join("password")).expect("the primary's password");
        let follow = format!("host=127.0.0.1 port={} user={} password={password}", self.port(), primary.get_username());
        let cluster = start(settings(&home, &[("primary_conninfo", &follow)]).await).await;
        PrivateCluster { cluster, folder: self.folder.clone() }
    }
}

impl Deref for PrivateCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        let pgdata: PathBuf = self.pgdata();
        if let Some(running) = embedded::running(&pgdata) {
            let _ = embedded::signal(running.pid, Signal::Immediate, None);
            let since = Instant::now();
            while embedded::running(&pgdata).is_some() && since.elapsed() < END_TIMEOUT {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Files that remain are removed when the test server is stopped.
        let _ = std::fs::remove_dir_all(self.data_dir());
        if !self.socket_dir().starts_with(self.data_dir()) {
            let _ = std::fs::remove_dir_all(self.socket_dir());
        }
    }
}

async fn settings(home: &Path, extra: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::new(home);
    settings.installation = Some(installation().await);
    settings.database = "test".to_owned();
    settings.extra = vec![("shared_buffers".to_owned(), "32MB".to_owned())];
    settings.extra.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    settings
}

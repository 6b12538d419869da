//! The PostgreSQL that is measured, and its observer.
//!
//! Without a URL it is a private server in a temporary folder, with the durability of a fresh installation. Either way
//! the workloads log in as a role of their own: the server keeps statistics per role, so their statements are counted
//! and those of the observer are not.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use reveille_pg::embedded::{self, Cluster, Download, Settings, Wanted};
use reveille_pg::{Database, Options, Schema};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

use crate::Result;
use crate::report::Figures;

/// A server to measure on. Call [`stop`](Server::stop): dropping it stops nothing.
pub(crate) struct Server {
    url: String,
    observer: Mutex<PgConnection>,
    /// The role of the workloads; `None` if a role cannot be created on this server.
    role: Option<String>,
    /// Whether statements can be counted.
    counts: bool,
    cluster: Option<Cluster>,
    /// The schemas to drop at the end if the server is not a private one.
    schemas: std::sync::Mutex<Vec<Schema>>,
}

/// The counts at a point in time.
pub(crate) struct Mark {
    statements: Option<i64>,
    wal_bytes: i64,
}

impl Server {
    /// Uses the server of `url`, or creates and starts a private one of a major version.
    pub(crate) async fn start(url: Option<&str>, major: Option<u32>) -> Result<Server> {
        let cluster = match url {
            Some(_) => None,
            None => Some(start_private(major).await?),
        };
        let owner = url.or(cluster.as_ref().map(Cluster::url)).unwrap_or_default();
        match Server::prepare(owner).await {
            Ok((url, observer, role, counts)) => {
                Ok(Server { url, observer: observer.into(), role, counts, cluster, schemas: Default::default() })
            }
            Err(error) => {
                if let Some(cluster) = cluster {
                    remove(&cluster).await?;
                }
                Err(error)
            }
        }
    }

    async fn prepare(owner: &str) -> Result<(String, PgConnection, Option<String>, bool)> {
        // Checks the URL and the server's version, with errors that say what is wrong.
        let checked = Database::connect(owner, Options::default().max_connections(1)).await?;
        checked.close().await;
        let options: PgConnectOptions = owner.parse::<PgConnectOptions>()?.disable_statement_logging();
        let mut observer = options.clone().application_name("reveille-bench observer").connect().await?;
        let (role, password) =
            (format!("reveille_bench_{:08x}", fastrand::u32(..)), format!("{:032x}", fastrand::u128(..)));
        // A superuser, as the owner of a private server is: privileges are not what is measured.
        let create = format!("create role {role} superuser login password '{password}'");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut observer).await {
            eprintln!("cannot create a role ({error}): statements are not counted");
            return Ok((owner.to_owned(), observer, None, false));
        }
        let extension = "create extension if not exists pg_stat_statements; select 1 from pg_stat_statements limit 1";
        let counts = sqlx::raw_sql(extension).execute(&mut observer).await.is_ok();
        if !counts {
            eprintln!("no pg_stat_statements on this server: statements are not counted");
        }
        let url = log_in_as(owner, &role, &password);
        Ok((url, observer, Some(role), counts))
    }

    /// A URL that logs in as the role of the workloads. It contains a password: never print it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A pool of at most `max_connections` connections.
    pub(crate) async fn database(&self, max_connections: u32) -> Result<Database> {
        Ok(Database::connect(&self.url, Options::default().max_connections(max_connections)).await?)
    }

    /// One connection.
    pub(crate) async fn connection(&self) -> Result<PgConnection> {
        Ok(self.url.parse::<PgConnectOptions>()?.disable_statement_logging().connect().await?)
    }

    /// Opens a transaction, leaves it idle for a while, and ends it.
    pub(crate) async fn sit_idle(&self, open: Duration) -> Result<()> {
        let mut connection = self.connection().await?;
        let mut idle = connection.begin().await?;
        // It has a transaction id and a snapshot, like a forgotten transaction of an application.
        sqlx::raw_sql("set transaction isolation level repeatable read; select pg_current_xact_id()")
            .execute(&mut *idle)
            .await?;
        sleep(open).await;
        idle.rollback().await?;
        Ok(())
    }

    /// The process id of a private server.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.cluster.as_ref().and_then(Cluster::pid)
    }

    /// A new schema.
    pub(crate) fn new_schema(&self) -> Result<Schema> {
        let schema = Schema::new(&format!("bench_{:08x}", fastrand::u32(..)))?;
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).push(schema.clone());
        Ok(schema)
    }

    /// A new schema of a program that always uses this name. What an earlier round has left in it is removed.
    ///
    /// # Errors
    /// The schema exists and is not of this run, so that it must not be removed.
    pub(crate) async fn new_schema_named(&self, name: &str) -> Result<Schema> {
        let schema = Schema::new(name)?;
        let is_ours =
            self.schemas.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|ours| ours.name() == name);
        if is_ours {
            self.remove(&schema).await?;
        }
        let exists = sqlx::query_scalar("select exists (select from pg_namespace where nspname = $1)").bind(name);
        if exists.fetch_one(&mut *self.observer.lock().await).await? {
            return Err(format!("the schema {name} exists on this server, and a peer would use it").into());
        }
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).push(schema.clone());
        Ok(schema)
    }

    /// The version, settings and cores with which the figures were measured.
    pub(crate) async fn setting(&self) -> Result<(String, Figures)> {
        let ask = "select current_setting('server_version'), current_setting('fsync'), \
                   current_setting('synchronous_commit'), current_setting('shared_buffers')";
        let (version, fsync, commit, buffers): (String, String, String, String) =
            sqlx::query_as(ask).fetch_one(&mut *self.observer.lock().await).await?;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let figures = Figures::default().count("cores", cores).text("fsync", fsync);
        let figures = figures.text("synchronous_commit", commit).text("shared_buffers", buffers);
        Ok((format!("PostgreSQL {version}"), figures))
    }

    /// The counts now.
    pub(crate) async fn mark(&self) -> Result<Mark> {
        let wal = sqlx::query_scalar("select (pg_current_wal_insert_lsn() - '0/0')::bigint");
        let wal_bytes = wal.fetch_one(&mut *self.observer.lock().await).await?;
        Ok(Mark { statements: self.statements("").await?, wal_bytes })
    }

    /// Statements of the workloads and bytes of WAL (of all roles) since a mark; `None`: not counted on this server.
    pub(crate) async fn since(&self, then: &Mark) -> Result<(Option<f64>, f64)> {
        let now = self.mark().await?;
        let statements = now.statements.zip(then.statements).map(|(now, then)| (now - then) as f64);
        Ok((statements, (now.wal_bytes - then.wal_bytes) as f64))
    }

    /// Statements of the workloads so far whose text contains `fragment`; `None`: not counted on this server.
    pub(crate) async fn statements(&self, fragment: &str) -> Result<Option<i64>> {
        let Some(role) = self.counted_role() else { return Ok(None) };
        let count = "select coalesce(sum(s.calls), 0)::bigint from pg_stat_statements s \
                     join pg_roles r on r.oid = s.userid where r.rolname = $1 and strpos(s.query, $2) > 0";
        let count = sqlx::query_scalar(count).bind(role).bind(fragment);
        Ok(Some(count.fetch_one(&mut *self.observer.lock().await).await?))
    }

    /// The observer: its statements are not counted.
    pub(crate) async fn observer(&self) -> MutexGuard<'_, PgConnection> {
        self.observer.lock().await
    }

    /// The role whose statements are counted; `None` if they are not.
    pub(crate) fn counted_role(&self) -> Option<&str> {
        self.role.as_deref().filter(|_| self.counts)
    }

    /// Ends the remaining connections of the workloads, and drops one of their schemas.
    pub(crate) async fn remove(&self, schema: &Schema) -> Result<()> {
        let mut observer = self.observer.lock().await;
        self.end_backends(&mut observer).await?;
        sqlx::query(schema.sql("drop schema if exists {schema} cascade")).execute(&mut *observer).await?;
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other.name() != schema.name());
        Ok(())
    }

    async fn end_backends(&self, observer: &mut PgConnection) -> Result<()> {
        let Some(role) = &self.role else { return Ok(()) };
        let end = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1";
        sqlx::query(end).bind(role).execute(observer).await?;
        Ok(())
    }

    /// Stops and removes a private server; removes role and schemas from another one.
    pub(crate) async fn stop(&self) -> Result<()> {
        if let Some(cluster) = &self.cluster {
            return remove(cluster).await;
        }
        let mut observer = self.observer.lock().await;
        self.end_backends(&mut observer).await?;
        let schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for schema in schemas {
            let drop = schema.sql("drop schema if exists {schema} cascade");
            sqlx::query(&drop).execute(&mut *observer).await?;
        }
        if let Some(role) = &self.role {
            let drop = format!("drop owned by {role} cascade; drop role {role}");
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut *observer).await?;
        }
        Ok(())
    }
}

/// `url` with another role and password, which contain no character that is special in a URL.
fn log_in_as(url: &str, role: &str, password: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let kept = query.split('&').filter(|option| !option.starts_with("user=") && !option.starts_with("password="));
    let query = kept.collect::<Vec<_>>().join("&");
    format!("{scheme}://{role}:{password}@{host}{}{query}", if query.is_empty() { "" } else { "?" })
}

async fn start_private(major: Option<u32>) -> Result<Cluster> {
    let wanted = major.map_or_else(Wanted::default, Wanted::exactly);
    // The archive that `reveille up` uses, too.
    let archive = std::env::var_os("REVEILLE_PG_ARCHIVE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let what = Download { wanted, archive, into: None };
    let installation = embedded::obtain(what, |progress| eprintln!("{progress}")).await?;
    let folder: PathBuf = std::env::temp_dir().join(format!("reveille-bench-{:08x}", fastrand::u32(..)));
    eprintln!("starting PostgreSQL {} in {}", installation.version, folder.display());
    let mut settings = Settings::new(&folder).installation(installation);
    // The log of a long round is read after the round.
    settings.extra.push(("wal_keep_size".to_owned(), "16GB".to_owned()));
    match Cluster::start(settings).await {
        Ok(cluster) => Ok(cluster),
        Err(error) => {
            remove_folder(&folder);
            Err(error.into())
        }
    }
}

async fn remove(cluster: &Cluster) -> Result<()> {
    cluster.stop_immediate().await?;
    remove_folder(cluster.socket_dir());
    remove_folder(cluster.data_dir());
    Ok(())
}

fn remove_folder(folder: &Path) {
    // The folder of the socket may be within the other one, or be removed by the server.
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        eprintln!("{} could not be removed: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only role and password change, wherever they are in the URL; everything else stays.
    #[test]
    fn a_url_logs_in_as_another_role() {
        let cases = [
            ("postgres://a:b@h:1/d", "postgres://me:pw@h:1/d"),
            ("postgres://h/d", "postgres://me:pw@h/d"),
            ("postgresql:///d?host=/run&user=a&password=b", "postgresql://me:pw@/d?host=/run"),
            ("postgres://a@h/d?user=a", "postgres://me:pw@h/d"),
        ];
        for (given, expected) in cases {
            assert_eq!(log_in_as(given, "me", "pw"), expected);
        }
    }
}

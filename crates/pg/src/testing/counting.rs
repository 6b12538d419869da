//! Counting the statements of a test.
//!
//! `pg_stat_statements` counts for the whole server, where other tests run at the same time; resetting it would destroy
//! their counts. The statistics are kept per role, so a test counts its statements with its own role.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};

use super::cleaning::{self, RIGHTS_LOCK, RIGHTS_TIMEOUT};
use super::{TestDb, address, skip};
use crate::embedded::random_hex;
use crate::{Database, Options};

/// A login role of one test. Only statements sent through its URL are counted.
///
/// The role has all privileges on the objects that the test creates, but is not a superuser. It is dropped, with
/// everything that it owns, together with its [`TestDb`].
#[derive(Debug)]
pub struct CountingRole {
    name: String,
    url: String,
    database: Database,
    observer: tokio::sync::Mutex<PgConnection>,
}

impl TestDb {
    /// A role whose statements are counted.
    ///
    /// `None`, with a line that the test is skipped, if the server of `DATABASE_URL` has no `pg_stat_statements` or its
    /// role is not a superuser.
    pub async fn counting_role(&self) -> Option<CountingRole> {
        let mut observer = self.superuser().await?;
        let preloaded: bool = sqlx::query_scalar(
            "select coalesce(current_setting('shared_preload_libraries', true), '') like '%pg_stat_statements%'",
        )
        .fetch_one(&mut observer)
        .await
        .expect("ask for the preloaded libraries");
        if !preloaded {
            return skip("pg_stat_statements in shared_preload_libraries of the server");
        }
        let (name, password) = (cleaning::new_name(), random_hex(16).unwrap_or_else(|error| panic!("{error}")));
        // Under the lock, because concurrent tests may all create the extension, which fails. Tracked are the statements
        // that a client sends, not those that functions run inside.
        let sql = format!(
            "{RIGHTS_TIMEOUT}; {RIGHTS_LOCK}; \
             create extension if not exists pg_stat_statements; \
             create role \"{name}\" login password '{password}'; \
             alter role \"{name}\" set pg_stat_statements.track = 'top'; \
             do $$ begin execute format('grant %I to \"{name}\"', current_user); end $$; \
             do $$ begin execute format('grant create on database %I to \"{name}\"', current_database()); end $$; \
             grant all on schema {} to \"{name}\"",
            self.schema().quoted()
        );
        let mut transaction = observer.begin().await.expect("begin");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.expect("create a counting role");
        self.drop_role_later(name.clone());
        transaction.commit().await.expect("create a counting role");
        let url = address::log_in_as(self.url(), &name, &password);
        let database = Database::connect_lazy(&url, Options::default()).expect("the URL of a counting role");
        Some(CountingRole { name, url, database, observer: observer.into() })
    }
}

impl CountingRole {
    /// The role.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A URL that logs in as this role, for a pool with other options or a proxy. Do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool that logs in as this role.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Another pool with one connection, so that a plan is made once.
    ///
    /// # Panics
    /// If the pool cannot be created.
    pub fn one_connection(&self) -> Database {
        let one = crate::Options { max_connections: 1, ..crate::Options::default() };
        Database::connect_lazy(&self.url, one).expect("a pool of one connection")
    }

    /// Every statement that this role has sent, with the number of calls, ordered by text.
    ///
    /// Constants are shown as parameters. `BEGIN`, `COMMIT` and `LISTEN` are included; statements inside functions are
    /// not.
    pub async fn statements(&self) -> Vec<(String, i64)> {
        let statements = "select s.query, s.calls from pg_stat_statements s \
                          join pg_roles r on r.oid = s.userid where r.rolname = $1 order by s.query";
        let mut observer = self.observer.lock().await;
        let rows = sqlx::query(statements).bind(&self.name).fetch_all(&mut *observer).await;
        rows.expect("read pg_stat_statements").iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// How many statements this role has sent.
    pub async fn calls(&self) -> i64 {
        self.statements().await.iter().map(|(_, calls)| calls).sum()
    }

    /// How many statements this role has sent whose text contains `fragment`, ignoring case.
    pub async fn calls_matching(&self, fragment: &str) -> i64 {
        let fragment = fragment.to_lowercase();
        let statements = self.statements().await;
        statements.iter().filter(|(query, _)| query.to_lowercase().contains(&fragment)).map(|(_, calls)| calls).sum()
    }

    /// Pages read by this role's statements whose text contains `fragment`, including the functions that they call.
    pub async fn pages_matching(&self, fragment: &str) -> i64 {
        let pages = "select coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::bigint from pg_stat_statements s \
                     join pg_roles r on r.oid = s.userid where r.rolname = $1 and strpos(s.query, $2) > 0";
        let mut observer = self.observer.lock().await;
        let read = sqlx::query_scalar(pages).bind(&self.name).bind(fragment).fetch_one(&mut *observer).await;
        read.expect("read pg_stat_statements")
    }
}

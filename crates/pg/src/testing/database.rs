//! One schema per test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::server::{Server, server};
use super::{cleaning, skip};
use crate::{Database, Options, Schema};

/// The schema of one test on the shared server. Dropped, with everything in it, when the value is dropped.
///
/// ```no_run
/// # async fn example() -> reveille_pg::Result<()> {
/// use reveille_pg::testing::TestDb;
///
/// let db = TestDb::new().await;
/// let create = db.schema().sql("create table {schema}.note (text text)");
/// sqlx::query(create).execute(db.database().pool()).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestDb {
    database: Database,
    schema: Schema,
    url: String,
    /// Roles to drop together with the schema.
    roles: Mutex<Vec<String>>,
}

impl TestDb {
    /// Creates an empty schema with a simple name. Starts the shared server if it does not run.
    pub async fn new() -> TestDb {
        TestDb::named(&cleaning::new_name()).await
    }

    /// Creates an empty schema whose name has quotes, spaces and non-ASCII letters, to find missing quotes.
    pub async fn with_odd_name() -> TestDb {
        TestDb::named(&format!("{} My \"odd\" Schéma", cleaning::new_name())).await
    }

    async fn named(name: &str) -> TestDb {
        let server = server().await;
        let url = server.url.clone();
        let schema = Schema::new(name).unwrap_or_else(|error| panic!("{error}"));
        create(&url, &schema).await.unwrap_or_else(|error| panic!("{}: {error}", explain(server)));
        let database = Database::connect_lazy(&url, Options::default()).unwrap_or_else(|error| panic!("{error}"));
        TestDb { database, schema, url, roles: Mutex::default() }
    }

    /// A pool on the server, with the default options. It connects at its first use.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// This test's schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Analyzes the tables of the schema now, as autovacuum would after about a minute.
    ///
    /// # Panics
    /// If a statement fails.
    pub async fn analyze(&self) {
        let sql = "do $$ declare name text; begin \
                   for name in select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                               where n.nspname = {name} and c.relkind = 'r' \
                   loop execute 'analyze ' || name; end loop; end $$";
        let name = format!("$name${}$name$", self.schema.name());
        let sql = sql.replace("{name}", &name);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.database.pool()).await.expect("analyze the tables");
    }

    /// A transaction with a transaction id and a snapshot that keeps dead tuples, as an idle transaction does.
    ///
    /// # Panics
    /// If it cannot begin.
    pub async fn old_transaction(&self) -> sqlx::Transaction<'static, sqlx::Postgres> {
        let mut old = self.database.pool().begin().await.expect("begin a transaction");
        let keep = "set transaction isolation level repeatable read; select pg_current_xact_id()";
        sqlx::raw_sql(keep).execute(&mut *old).await.expect("take a number and a snapshot");
        old
    }

    /// The server's URL, for a pool with other options. Do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A superuser connection.
    ///
    /// `None`, with a line that the test is skipped, if the role of `DATABASE_URL` is not a superuser.
    pub async fn superuser(&self) -> Option<PgConnection> {
        let mut connection = cleaning::connect(&self.url).await.expect("connect to the test server");
        let is_superuser: bool = sqlx::query_scalar("select current_setting('is_superuser')::bool")
            .fetch_one(&mut connection)
            .await
            .expect("ask for the role's rights");
        if is_superuser { Some(connection) } else { skip("a superuser, which the role of DATABASE_URL is not") }
    }

    /// Registers a role to drop together with the schema.
    pub(super) fn drop_role_later(&self, role: String) {
        self.roles.lock().expect("no test panics while holding this").push(role);
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let roles = std::mem::take(&mut *self.roles.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        cleaning::drop_now(&self.url, &self.schema, &roles);
    }
}

/// Creates the schema, and once per process removes leftovers of killed processes.
async fn create(url: &str, schema: &Schema) -> sqlx::Result<()> {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    let mut connection = cleaning::connect(url).await?;
    if !SWEPT.swap(true, Ordering::Relaxed) {
        cleaning::sweep(&mut connection).await?;
    }
    let create = format!("create schema {}", schema.quoted());
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await?;
    connection.close().await
}

fn explain(server: &Server) -> &'static str {
    if server.given {
        "could not create a schema on the server of DATABASE_URL"
    } else {
        "could not create a schema on the shared test server"
    }
}

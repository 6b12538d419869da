//! One schema for one test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::server::{Server, server};
use super::{cleaning, skip};
use crate::{Database, Options, Schema};

/// A schema of its own for one test, on the shared server. Dropped with everything in it when the value is.
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
    /// A new, empty schema with a plain name. Starts the shared server if none runs.
    pub async fn new() -> TestDb {
        TestDb::named(&cleaning::new_name()).await
    }

    /// A new, empty schema whose name has quotes, blanks and letters beyond ASCII: what a careless SQL text breaks on.
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

    /// Lets the server know how large the tables of the schema are now, as it finds out by itself after a minute or so.
    ///
    /// # Panics
    /// If it cannot.
    pub async fn analyze(&self) {
        let sql = "do $$ declare name text; begin \
                   for name in select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                               where n.nspname = {name} and c.relkind = 'r' \
                   loop execute 'analyze ' || name; end loop; end $$";
        let name = format!("$name${}$name$", self.schema.name());
        let sql = sql.replace("{name}", &name);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.database.pool()).await.expect("analyze the tables");
    }

    /// A transaction that keeps whatever is updated or deleted from now on, as a forgotten one does: it has a number and a snapshot.
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

    /// A connection as superuser, for what an ordinary role may not do.
    ///
    /// `None`, with a line that the test is skipped, when the role of `DATABASE_URL` is not one.
    pub async fn superuser(&self) -> Option<PgConnection> {
        let mut connection = cleaning::connect(&self.url).await.expect("connect to the test server");
        let is_superuser: bool = sqlx::query_scalar("select current_setting('is_superuser')::bool")
            .fetch_one(&mut connection)
            .await
            .expect("ask for the role's rights");
        if is_superuser { Some(connection) } else { skip("a superuser, which the role of DATABASE_URL is not") }
    }

    /// Remembers a role to drop together with the schema.
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

/// Creates the schema, and once per process removes what killed processes left behind.
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
        "DATABASE_URL is set, and no schema could be created there"
    } else {
        "no schema could be created on the shared test server"
    }
}

//! Test databases.

use std::collections::HashSet;

use reveille_pg::Database;
use reveille_pg::embedded::{Cluster, Settings};
use reveille_pg::testing::{PrivateCluster, TestDb, installation_to_start, pooler};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};

async fn count_schemas(db: &TestDb, name: &str) -> i64 {
    let count = sqlx::query("select count(*) from pg_namespace where nspname = $1").bind(name);
    count.fetch_one(db.database().pool()).await.expect("count").get(0)
}

/// Two tests must not see each other's tables.
/// Makes the same table in two schemas and fills one.
#[tokio::test]
async fn every_test_has_a_schema_of_its_own() {
    let (one, two) = (TestDb::new().await, TestDb::new().await);
    for db in [&one, &two] {
        let create = db.schema().sql("create table {schema}.note (text text)");
        sqlx::query(create).execute(db.database().pool()).await.expect("create");
    }
    let insert = one.schema().sql("insert into {schema}.note values ('mine')");
    sqlx::query(insert).execute(one.database().pool()).await.expect("insert");
    let count = two.schema().sql("select count(*) from {schema}.note");
    let seen: i64 = sqlx::query(count).fetch_one(two.database().pool()).await.expect("count").get(0);
    assert_eq!(seen, 0);
}

/// A schema is dropped with its test, even if the test ends inside a transaction that holds a lock, and whatever its
/// name. Leaves a transaction open on the table, drops the value, and checks from another schema.
#[tokio::test]
async fn a_schema_is_dropped_even_when_the_test_holds_a_lock() {
    let observer = TestDb::new().await;
    let db = TestDb::with_odd_name().await;
    let name = db.schema().name().to_owned();
    assert_eq!(count_schemas(&observer, &name).await, 1);
    let mut transaction = db.database().pool().begin().await.expect("begin");
    let create = db.schema().sql("create table {schema}.note (text text)");
    sqlx::query(create).execute(&mut *transaction).await.expect("create");
    drop(db);
    assert_eq!(count_schemas(&observer, &name).await, 0);
}

/// The schema of a test that panics is dropped, too.
/// Panics on a runtime of its own while it holds a schema, and checks for the schema afterwards.
#[tokio::test]
async fn a_schema_is_dropped_when_the_test_panics() {
    let observer = TestDb::new().await;
    let (tell, received) = std::sync::mpsc::channel();
    let panicking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let db = TestDb::new().await;
            tell.send(db.schema().name().to_owned()).expect("tell");
            panic!("on purpose");
        });
    });
    let name = received.recv().expect("the name");
    assert!(panicking.join().is_err());
    assert_eq!(count_schemas(&observer, &name).await, 0);
}

/// Statements are counted for the role that sent them and for no other, and statements that differ only in constants
/// count as one. The same statement is sent by the role and by another pool.
#[tokio::test]
async fn statements_are_counted_by_role() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    assert_eq!(role.calls().await, 0, "{:?}", role.statements().await);
    for database in [role.database(), role.database(), db.database()] {
        sqlx::query("select 'counted' || $1::text").bind("x").execute(database.pool()).await.expect("select");
    }
    assert_eq!(role.statements().await, [("select $2 || $1::text".to_owned(), 2)]);
    assert_eq!(role.calls_matching("SELECT").await, 2);
    assert_eq!(role.calls_matching("insert").await, 0);
}

/// A counting role may use what the test made before and after it, because products migrate with another pool.
/// The role writes to both tables, and makes one itself.
#[tokio::test]
async fn a_counting_role_may_use_what_the_test_made() {
    let db = TestDb::new().await;
    let run = async |database: &Database, sql: &str| {
        sqlx::query(db.schema().sql(sql)).execute(database.pool()).await.expect("run");
    };
    run(db.database(), "create table {schema}.before (text text)").await;
    let Some(role) = db.counting_role().await else { return };
    run(db.database(), "create table {schema}.after (text text)").await;
    run(role.database(), "insert into {schema}.before values ('x')").await;
    run(role.database(), "insert into {schema}.after values ('x')").await;
    run(role.database(), "create table {schema}.own (text text)").await;
}

/// A private server comes back on the same port after every way to end it, with what was committed.
/// Writes a row, then stops, crashes and kills it in turn, reading the row after each.
#[tokio::test]
async fn a_private_server_survives_every_kind_of_end() {
    let Some(cluster) = PrivateCluster::start().await else { return };
    let read = async || {
        let mut connection = PgConnection::connect(cluster.url()).await.expect("connect");
        let count: i64 =
            sqlx::query_scalar("select count(*) from kept").fetch_one(&mut connection).await.expect("count");
        count
    };
    let mut connection = PgConnection::connect(cluster.url()).await.expect("connect");
    sqlx::raw_sql("create table kept (text text); insert into kept values ('x')")
        .execute(&mut connection)
        .await
        .expect("write");
    cluster.stop().await.expect("stop");
    assert_eq!(cluster.pid(), None);
    cluster.start_again().await.expect("start after a stop");
    assert_eq!(read().await, 1);
    cluster.restart_immediate().await.expect("restart");
    assert_eq!(read().await, 1);
    cluster.kill().await.expect("kill");
    cluster.start_again().await.expect("start after a kill");
    assert_eq!(read().await, 1);
}

/// A standby follows its primary and can take its directory.
/// Writes on the primary, waits until the standby has it, stops the primary and promotes.
#[tokio::test]
async fn a_standby_follows_and_is_promoted() {
    let Some(primary) = PrivateCluster::start().await else { return };
    let standby = primary.standby().await;
    let mut at_primary = PgConnection::connect(primary.url()).await.expect("connect to the primary");
    let mut at_standby = PgConnection::connect(standby.url()).await.expect("connect to the standby");
    sqlx::query("create table kept (text text)").execute(&mut at_primary).await.expect("create");
    let written: String =
        sqlx::query_scalar("select pg_current_wal_lsn()::text").fetch_one(&mut at_primary).await.expect("position");
    let replayed = "select pg_last_wal_replay_lsn() >= $1::pg_lsn";
    while !sqlx::query_scalar::<_, bool>(replayed).bind(&written).fetch_one(&mut at_standby).await.expect("replay") {
        tokio::task::yield_now().await;
    }
    let refused = sqlx::query("insert into kept values ('x')").execute(&mut at_standby).await;
    let refused = refused.expect_err("a standby is read-only");
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("25006"));
    primary.stop().await.expect("stop the primary");
    sqlx::query("select pg_promote()").execute(&mut at_standby).await.expect("promote");
    sqlx::query("insert into kept values ('x')").execute(&mut at_standby).await.expect("write after promotion");
}

/// A real pooler stands between the client and the server, and hands out sessions by transaction.
/// More clients than it has server connections each ask for their backend at the same time.
#[tokio::test]
async fn a_pooler_shares_few_sessions_between_many_clients() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let mut backends = HashSet::new();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let options: PgConnectOptions = pooler.url().parse().expect("url");
        let mut client = options.extra_float_digits(None).connect().await.expect("connect through the pooler");
        for row in sqlx::raw_sql("select pg_backend_pid()").fetch_all(&mut client).await.expect("ask") {
            backends.insert(row.get::<i32, _>(0));
        }
        clients.push(client);
    }
    assert!(backends.len() <= 3, "{} backends for {} clients", backends.len(), clients.len());
}

/// A test runs the same whatever a developer's environment says about encryption.
/// Runs another test of this program with `PGSSLMODE` asking for what the test server does not offer.
#[tokio::test]
async fn the_callers_sslmode_does_not_reach_the_test_server() {
    if installation_to_start().await.is_none() {
        return;
    }
    let mut other = tokio::process::Command::new(std::env::current_exe().expect("this program"));
    other.args(["--exact", "testing::every_test_has_a_schema_of_its_own"]).env("PGSSLMODE", "require");
    let output = other.output().await.expect("run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Many tests may give roles rights on the one database at the same time, and take them back.
/// Makes and drops counting roles together.
#[tokio::test]
async fn counting_roles_are_made_and_dropped_together() {
    let tests = (0..8).map(|_| {
        tokio::spawn(async {
            let db = TestDb::new().await;
            let role = db.counting_role().await?;
            let name = role.name().to_owned();
            drop(role);
            tokio::task::spawn_blocking(move || drop(db)).await.expect("drop");
            Some(name)
        })
    });
    let observer = TestDb::new().await;
    for test in tests.collect::<Vec<_>>() {
        let Some(role) = test.await.expect("no panic") else { return };
        assert!(role.starts_with("reveille_test_"), "{role}");
        let left = sqlx::query_scalar("select exists (select from pg_roles where rolname = $1)").bind(&role);
        assert!(!left.fetch_one(observer.database().pool()).await.unwrap_or(true), "{role} is left");
    }
}

/// Only what has the name of a test's schema is ever swept, and only when it is old.
/// Makes an old one, a young one and one of another application, and runs the sweep in a process of its own.
#[tokio::test]
async fn only_old_schemas_of_tests_are_swept() {
    let db = TestDb::new().await;
    let random = db.schema().name().rsplit('_').next().expect("a random part").to_owned();
    let (old, young) = (format!("reveille_test_00000001_{random}"), format!("reveille_test_ffffffff_{random}"));
    let other = format!("t_00000001_{random}");
    for name in [&old, &young, &other] {
        let create = sqlx::AssertSqlSafe(format!("create schema {name}"));
        sqlx::raw_sql(create).execute(db.database().pool()).await.expect("create");
    }
    let mut process = tokio::process::Command::new(std::env::current_exe().expect("this program"));
    process.args(["--exact", "testing::every_test_has_a_schema_of_its_own"]);
    assert!(process.output().await.expect("run").status.success());
    let mut left = Vec::new();
    for name in [&old, &young, &other] {
        left.push(count_schemas(&db, name).await);
    }
    for name in [&young, &other] {
        let drop = sqlx::AssertSqlSafe(format!("drop schema {name}"));
        sqlx::raw_sql(drop).execute(db.database().pool()).await.expect("drop");
    }
    assert_eq!(left, [0, 1, 1]);
}

/// The end of one test run must not stop the servers of another. When no process uses them they are stopped, and their
/// folder is removed. Holds the lock of a user of the folder while they are to be stopped, and then releases it.
#[tokio::test]
async fn servers_in_use_are_not_stopped() {
    let Some(installation) = installation_to_start().await else { return };
    let folder = std::path::Path::new("/tmp").join(format!("reveille-control-{:x}", fastrand::u64(..)));
    let home = folder.join("server");
    let settings = Settings::new(&home).installation(installation).durable(false);
    let cluster = Cluster::start(settings).await.expect("start");
    let used = std::fs::File::create(folder.join("in-use")).expect("create");
    used.lock_shared().expect("use");
    let stop = async || {
        let control = concat!(env!("CARGO_MANIFEST_DIR"), "/src/testing/control.sh");
        let output = tokio::process::Command::new("sh").arg(control).arg("stop").arg(&folder).output().await;
        let output = output.expect("run sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(stop().await.contains("are in use and keep running"));
    PgConnection::connect(cluster.url()).await.expect("it still runs").close().await.expect("close");
    drop(used);
    assert_eq!(stop().await, "");
    assert_eq!(cluster.pid(), None);
    assert!(!folder.exists());
}

//! `reveille migrate`: dry run, migration, and applying the dump by hand.

use reveille_pg::testing::{PrivateCluster, TestDb};
use tokio::process::Command;

use crate::{
    demo::shows_everything,
    process::{Reveille, command, run},
};

/// `reveille migrate` with a flag, on the schema of a test.
fn migrate(db: &TestDb, flags: &[&str]) -> Command {
    let mut migrate = command(&["migrate", "--log=warn"]);
    migrate.args(flags).env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    migrate
}

/// Runs it, checks its exit code, and returns its output.
async fn expect(command: Command, code: i32) -> String {
    let ended = run(command).await;
    assert_eq!(ended.status.code(), Some(code), "{}", ended.output);
    ended.output
}

/// A dry run must list what a run then does, and change nothing; verification must fail before the run and succeed
/// after it; a second run must find nothing to do. On a schema with an odd name.
#[tokio::test]
async fn migrating_does_what_the_dry_run_reported() {
    let db = TestDb::with_odd_name().await;
    expect(migrate(&db, &["--verify"]), 1).await;
    let planned = expect(migrate(&db, &["--dry-run"]), 0).await;
    expect(migrate(&db, &["--verify"]), 1).await;

    let done = expect(migrate(&db, &[]), 0).await;
    let steps = |text: &str| {
        text.lines().filter_map(|line| line.split_once(": ").map(|it| it.0.to_owned())).collect::<Vec<_>>()
    };
    assert!(!steps(&done).is_empty());
    assert_eq!(steps(&done), steps(&planned));

    expect(migrate(&db, &["--verify"]), 0).await;
    let again = expect(migrate(&db, &[]), 0).await;
    assert!(again.contains("is up to date"), "{again}");
}

/// The dump must need no database and contain the whole schema.
/// Applies it by hand; verification then succeeds.
#[tokio::test]
async fn a_dump_applied_by_hand_is_a_migration() {
    let db = TestDb::new().await;
    let mut dump = command(&["migrate", "--dump"]);
    dump.env("REVEILLE_SCHEMA", db.schema().name());
    let sql = expect(dump, 0).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(db.database().pool()).await.expect("the dump applies");
    expect(migrate(&db, &["--verify"]), 0).await;
}

/// A schema that a newer binary has migrated must not be changed, with a reason.
/// Inserts a row for a migration that this binary does not know.
#[tokio::test]
async fn a_newer_schema_is_not_changed() {
    let db = TestDb::new().await;
    expect(migrate(&db, &[]), 0).await;
    let future = db.schema().sql("update {schema}.migration set number = 1000 where component = 'wake' and number = 1");
    sqlx::raw_sql(future).execute(db.database().pool()).await.expect("pretended");
    let output = expect(migrate(&db, &[]), 1).await;
    assert!(output.contains("1000"), "{output}");
}

/// A role of `migrate --roles` must be able to serve everything and to change nothing else. Making it twice is the same
/// as once. On a server of its own, because roles belong to a whole server: the demo runs as a member of the role and
/// shows everything, without a complaint; then the role tries to create, change, drop and truncate.
#[tokio::test]
async fn a_role_for_serving_serves_and_changes_nothing_else() {
    let Some(cluster) = PrivateCluster::start().await else { return };
    let as_owner = |args: &[&str]| {
        let mut migrate = command(&[["migrate", "--log=warn"].as_slice(), args].concat());
        migrate.env("DATABASE_URL", cluster.url()).env("REVEILLE_SCHEMA", "odd \"work\"");
        migrate
    };
    let printed = expect(as_owner(&["--roles=it's \"odd\"", "--print"]), 0).await;
    assert!(printed.contains("\"it's \"\"odd\"\"\"") && printed.contains("'it''s \"odd\"'"), "{printed}");
    expect(as_owner(&["--roles=pg_odd"]), 2).await;
    for _ in 0..2 {
        let done = expect(as_owner(&["--roles"]), 0).await;
        assert!(done.contains("reveille_serve may serve"), "{done}");
    }

    let url = cluster.url();
    let owner = sqlx::PgPool::connect(url).await.expect("connected");
    sqlx::raw_sql("create role runner login password 'runner' in role reveille_serve")
        .execute(&owner)
        .await
        .expect("made");
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let url = format!("postgres://runner:runner@{rest}");
    let mut up = command(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    up.env("DATABASE_URL", &url).env("REVEILLE_SCHEMA", "odd \"work\"");
    let reveille = Reveille::start(up);
    reveille.line("Ctrl-C stops it").await;
    shows_everything(reveille.address().await).await;
    reveille.signal("INT").await;
    let output = reveille.ended().await.output;
    assert!(!output.contains("permission") && !output.contains("WARN") && !output.contains("ERROR"), "{output}");

    let runner = sqlx::PgPool::connect(&url).await.expect("connected");
    for sql in [
        "create table \"odd \"\"work\"\"\".more ()",
        "alter table \"odd \"\"work\"\"\".task add more integer",
        "drop table \"odd \"\"work\"\"\".segment",
        "truncate \"odd \"\"work\"\"\".task cascade",
        "delete from \"odd \"\"work\"\"\".migration",
        "create schema more",
        "create role more",
    ] {
        let error = sqlx::raw_sql(sql).execute(&runner).await.expect_err(sql);
        let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        assert_eq!(code, "42501", "{sql}: {error}");
    }
}

//! `reveille durable`: importing from duroxide-pg.

use reveille_pg::testing::TestDb;
use tokio::process::Command;

use crate::process::{command, run};

/// A schema of duroxide-pg.
const DUROXIDE_PG: &str = include_str!("../../../durable/tests/it/duroxide_pg.sql");
/// What it contains.
const HELD: &str = "11 instances, 13 executions, 146 events, 6 messages, 2 activities, 1 sessions, 5 keys";

async fn duroxide_pg() -> TestDb {
    let db = TestDb::with_odd_name().await;
    sqlx::raw_sql(db.schema().sql(DUROXIDE_PG)).execute(db.database().pool()).await.expect("made");
    db
}

/// `reveille durable import` from one schema with flags.
fn import(from: &TestDb, flags: &[&str]) -> Command {
    let mut import = command(&["durable", "import", "--log=warn", "--from", from.schema().name()]);
    import.args(flags).env("DATABASE_URL", from.url());
    import
}

/// Runs it, checks its exit code, and returns its output.
async fn expect(command: Command, code: i32) -> String {
    let ended = run(command).await;
    assert_eq!(ended.status.code(), Some(code), "{}", ended.output);
    ended.output
}

/// A dry run must count and change nothing; the import must report the same counts; a second import must find nothing
/// to do. The target is named once by its own flag and once by the schema's.
#[tokio::test]
async fn importing_does_what_the_dry_run_reported() {
    let (old, new) = (duroxide_pg().await, TestDb::new().await);
    let to = ["--to", new.schema().name()];
    let tables = "select count(*) from pg_tables where schemaname = $1";
    let tables = async || -> i64 {
        let query = sqlx::query_scalar(tables).bind(new.schema().name());
        query.fetch_one(new.database().pool()).await.expect("counted")
    };

    let planned = expect(import(&old, &[to[0], to[1], "--dry-run"]), 0).await;
    assert!(planned.contains(HELD) && planned.contains("it can be imported"), "{planned}");
    assert_eq!(tables().await, 0);

    let done = expect(import(&old, &to), 0).await;
    assert!(done.contains(HELD) && done.contains(new.schema().quoted()), "{done}");
    let count = new.schema().sql("select count(*) from {schema}.instances");
    let instances: i64 = sqlx::query_scalar(count).fetch_one(new.database().pool()).await.expect("counted");
    assert_eq!(instances, 11);
    let again = expect(import(&old, &["--schema", new.schema().name()]), 0).await;
    assert!(again.contains(HELD), "{again}");
}

/// A rejected import must end with code 1 and the reason, without advice about the database, which is healthy.
/// A runtime of duroxide-pg still has a lease; the target is the source; the target is another schema of duroxide-pg.
#[tokio::test]
async fn a_rejected_import_names_the_reason() {
    let (old, new) = (duroxide_pg().await, TestDb::new().await);
    let lease = "update {schema}.instance_locks set locked_until = (extract(epoch from now()) * 1000)::bigint + 60000";
    sqlx::raw_sql(old.schema().sql(lease)).execute(old.database().pool()).await.expect("leased");
    for flags in [&["--to", new.schema().name()][..], &["--to", new.schema().name(), "--dry-run"]] {
        let output = expect(import(&old, flags), 1).await;
        assert!(output.contains("1 turns") && output.contains("stop every runtime"), "{output}");
        assert!(!output.contains("doctor"), "{output}");
    }
    let output = expect(import(&old, &["--to", old.schema().name()]), 1).await;
    assert!(output.contains("source and the target"), "{output}");
    sqlx::raw_sql(new.schema().sql(DUROXIDE_PG)).execute(new.database().pool()).await.expect("made");
    let output = expect(import(&new, &["--to", old.schema().name()]), 1).await;
    assert!(output.contains("into a new schema"), "{output}");
}

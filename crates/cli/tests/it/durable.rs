//! `reveille durable`: importing from duroxide-pg.

use reveille_pg::testing::TestDb;
use tokio::process::Command;

use crate::process::{command, run};

/// A schema as duroxide-pg leaves it.
const DUROXIDE_PG: &str = include_str!("../../../durable/tests/it/duroxide_pg.sql");
/// What it holds.
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

/// Runs it; the code must be `code`. Returns what was said.
async fn expect(command: Command, code: i32) -> String {
    let ended = run(command).await;
    assert_eq!(ended.status.code(), Some(code), "{}", ended.said);
    ended.said
}

/// A dry run must count and make nothing; the import must carry that much; a second one must find nothing to do.
/// Runs the commands in that order; the target is named once by its own flag and once by the schema's.
#[tokio::test]
async fn importing_does_what_the_dry_run_said() {
    let (old, new) = (duroxide_pg().await, TestDb::new().await);
    let to = ["--to", new.schema().name()];
    let tables = "select count(*) from pg_tables where schemaname = $1";
    let tables = async || -> i64 {
        let query = sqlx::query_scalar(tables).bind(new.schema().name());
        query.fetch_one(new.database().pool()).await.expect("counted")
    };

    let planned = expect(import(&old, &[to[0], to[1], "--dry-run"]), 0).await;
    assert!(planned.contains(HELD) && planned.contains("nothing stands in the way"), "{planned}");
    assert_eq!(tables().await, 0);

    let done = expect(import(&old, &to), 0).await;
    assert!(done.contains(HELD) && done.contains(new.schema().quoted()), "{done}");
    let count = new.schema().sql("select count(*) from {schema}.instances");
    let instances: i64 = sqlx::query_scalar(count).fetch_one(new.database().pool()).await.expect("counted");
    assert_eq!(instances, 11);
    let again = expect(import(&old, &["--schema", new.schema().name()]), 0).await;
    assert!(again.contains(HELD), "{again}");
}

/// A refusal must end with code 1 and the reason, and not with advice about the database, which is well.
/// A runtime of duroxide-pg still has a lease; the target is the source; the target is another schema of duroxide-pg.
#[tokio::test]
async fn a_refused_import_says_why() {
    let (old, new) = (duroxide_pg().await, TestDb::new().await);
    let lease = "update {schema}.instance_locks set locked_until = (extract(epoch from now()) * 1000)::bigint + 60000";
    sqlx::raw_sql(old.schema().sql(lease)).execute(old.database().pool()).await.expect("leased");
    for flags in [&["--to", new.schema().name()][..], &["--to", new.schema().name(), "--dry-run"]] {
        let said = expect(import(&old, flags), 1).await;
        assert!(said.contains("1 turns") && said.contains("stop every runtime"), "{said}");
        assert!(!said.contains("doctor"), "{said}");
    }
    let said = expect(import(&old, &["--to", old.schema().name()]), 1).await;
    assert!(said.contains("source and the target"), "{said}");
    sqlx::raw_sql(new.schema().sql(DUROXIDE_PG)).execute(new.database().pool()).await.expect("made");
    let said = expect(import(&new, &["--to", old.schema().name()]), 1).await;
    assert!(said.contains("into a new schema"), "{said}");
}

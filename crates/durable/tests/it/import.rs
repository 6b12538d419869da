//! Importing from duroxide-pg: the imported data, the reasons to reject an import, and interrupted imports.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, Event, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use reveille_durable::import::{Error, Imported, Source};
use reveille_pg::Schema;
use reveille_pg::testing::{TestDb, prepare_all, sql_files};
use sqlx::Row;

use crate::fixture::{Fixture, PATIENCE, eventually};

/// What the schema of the tests holds.
const HELD: Imported =
    Imported { instances: 11, executions: 13, events: 146, messages: 6, activities: 2, sessions: 1, keys: 5 };
/// An instance whose name has a character that is stored in another way here.
const ODD: &str = "odd\u{1}1";

/// A schema of duroxide-pg's and one of ours.
struct Move {
    old: TestDb,
    new: Fixture,
}

impl Move {
    async fn prepare() -> Move {
        Move { old: duroxide_pg(TestDb::with_odd_name().await).await, new: Fixture::new().await }
    }

    fn provider(&self) -> &PostgresProvider {
        &self.new.provider
    }

    fn source(&self) -> Source {
        Source::new(self.old.schema().name()).expect("a name")
    }

    async fn import(&self) -> Result<Imported, Error> {
        self.provider().import_from(&self.source()).await
    }

    /// Sends statements to the old schema.
    async fn in_old(&self, text: &str) {
        execute(&self.old, text).await;
    }

    /// Sends statements to the new schema.
    async fn in_new(&self, text: &str) {
        execute(&self.new.db, text).await;
    }

    async fn count(&self, of: &str) -> i64 {
        let sql = self.new.db.schema().sql(of);
        sqlx::query_scalar(&sql).fetch_one(self.provider().pool()).await.expect("count")
    }

    /// Everything in the old schema, as one number.
    async fn fingerprint(&self) -> String {
        let tables = [
            "instances",
            "executions",
            "history",
            "orchestrator_queue",
            "worker_queue",
            "instance_locks",
            "sessions",
            "kv_store",
            "kv_delta",
            "_duroxide_migrations",
        ];
        let mut all = String::new();
        for table in tables {
            let text = "select coalesce(md5(string_agg(t::text, '|' order by t::text)), '-') from {schema}.{table} t";
            let sql = self.old.schema().sql_with(text, &[("table", table)]);
            all += &sqlx::query_scalar::<_, String>(&sql).fetch_one(self.old.database().pool()).await.expect("read");
        }
        all
    }
}

async fn execute(db: &TestDb, text: &str) {
    sqlx::raw_sql(db.schema().sql(text)).execute(db.database().pool()).await.expect("execute");
}

async fn duroxide_pg(db: TestDb) -> TestDb {
    execute(&db, include_str!("duroxide_pg.sql")).await;
    db
}

/// All data of the old instances must be read here unchanged, to the byte.
/// Imports and reads the provider, its administration and the tables.
#[tokio::test(flavor = "multi_thread")]
async fn imported_data_is_unchanged() {
    let it = Move::prepare().await;
    let before = it.fingerprint().await;
    assert_eq!(it.import().await.expect("import"), HELD);
    assert_eq!(it.fingerprint().await, before, "the source is as it was");

    let provider = it.provider();
    let list = provider.list_instances().await.expect("list");
    assert_eq!(list.len(), 11);
    assert_eq!(list[0], ODD, "the newest first");
    let info = provider.get_instance_info("done").await.expect("info");
    assert_eq!((info.orchestration_name.as_str(), info.orchestration_version.as_str()), ("Greet", "1.2.3"));
    assert_eq!((info.status.as_str(), info.output.as_deref()), ("Completed", Some("hello")));
    assert_eq!((info.created_at, info.updated_at), (1_772_359_204_000, 1_772_359_205_000));
    assert_eq!(provider.get_instance_info("failed").await.expect("info").output.as_deref(), Some("broken"));
    assert_eq!(provider.get_instance_info(ODD).await.expect("info").output.as_deref(), Some("\u{1}0"));
    assert_eq!(provider.get_instance_info("between").await.expect("info").status, "ContinuedAsNew");

    let tree = provider.get_instance_tree("parent").await.expect("tree");
    assert_eq!(tree.all_ids, ["parent", "parent::sub::2"]);
    assert_eq!(provider.list_executions("rounds").await.expect("executions"), [1, 2, 3]);
    let second = provider.get_execution_info("rounds", 2).await.expect("execution");
    assert_eq!((second.status.as_str(), second.output.as_deref()), ("ContinuedAsNew", Some("2")));
    assert_eq!(second.completed_at, Some(1_772_359_202_000), "when its last event was written");
    assert_eq!(second.event_count, 2);
    assert_eq!(provider.get_execution_info("rounds", 3).await.expect("execution").completed_at, None);

    let status = |instance, seen| provider.get_custom_status(instance, seen);
    assert_eq!(status("greet", 0).await.expect("status"), Some((Some("waiting".into()), 2)));
    assert_eq!(status("done", 0).await.expect("status"), Some((None, 3)), "it was set and cleared");
    assert_eq!(status(ODD, 0).await.expect("status"), Some((Some("a\u{1}".into()), 1)));

    let keys = provider.get_kv_all_values("rounds").await.expect("keys");
    assert_eq!(keys, HashMap::from([("kept".into(), "a".into()), ("round".into(), "2".into())]));
    assert_eq!(provider.get_kv_value("done", "k\u{1}").await.expect("key"), Some("v\u{1}".into()));

    let depths = provider.get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (6, 2));
    let pinned = "select pinned_version from {schema}.instances where instance_id = 'done'";
    assert_eq!(it.count(pinned).await, 1_000_030, "0.1.30");
}

/// Histories must be the same text, and their rows neither many nor large.
/// Compares every event's JSON with its source, and reads the long history through the provider.
#[tokio::test(flavor = "multi_thread")]
async fn histories_are_the_same_text_in_fewer_rows() {
    let it = Move::prepare().await;
    it.import().await.expect("import");
    let theirs = it.old.schema().sql(
        "select replace(instance_id, chr(1), chr(1) || '1'), execution_id, string_agg(event_data, ',' order by event_id)
         from {schema}.history group by 1, 2 order by 1, 2",
    );
    let ours = it.new.db.schema().sql(
        "select instance_id, execution_id, string_agg(substr(events, 2, length(events) - 2), ',' order by event_id)
         from {schema}.history group by 1, 2 order by 1, 2",
    );
    let read = async |sql| -> Vec<(String, i64, String)> {
        let rows = sqlx::query(sql).fetch_all(it.provider().pool()).await.expect("read");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    };
    let (theirs, ours) = (read(&theirs).await, read(&ours).await);
    assert_eq!(theirs.len(), 13);
    assert!(theirs == ours, "a text differs");

    for (instance, execution, text) in theirs {
        let instance = instance.replace("\u{1}1", "\u{1}");
        let events: Vec<Event> = serde_json::from_str(&format!("[{text}]")).expect("events");
        let read = it.provider().read_history_with_execution_id(&instance, execution as u64).await.expect("history");
        assert_eq!(read, events, "{instance}");
    }
    let rows = it.count("select count(*) from {schema}.history where instance_id = 'long'").await;
    assert_eq!(rows, 4, "fifty events a row, and another row after the large one");
    let whole = it.count("select sum(event_count)::bigint from {schema}.history where instance_id = 'long'").await;
    assert_eq!(whole, 120);
}

/// Orchestrations that had not ended go on and end as they should, whatever they wait for.
/// A runtime on the new schema, with the code they were started with.
#[tokio::test(flavor = "multi_thread")]
async fn runtimes_go_on_where_the_others_stopped() {
    let it = Move::prepare().await;
    it.import().await.expect("import");
    let hello = |_: ActivityContext, name: String| async move { Ok(format!("hello {name}")) };
    let activities = ActivityRegistry::builder().register("Hello", hello).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Rest", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_timer(std::time::Duration::from_secs(1)).await;
            Ok("rested".to_owned())
        })
        .register("Greet", |ctx: OrchestrationContext, name: String| async move {
            ctx.set_custom_status("waiting");
            ctx.schedule_activity("Hello", name).with_tag("polite").await
        })
        .register("Rounds", |ctx: OrchestrationContext, round: String| async move {
            let kept = ctx.get_kv_value("kept").unwrap_or_default();
            ctx.set_kv_value("round", round.clone());
            let go = ctx.schedule_wait("go").await;
            Ok(format!("{round} {kept} {go}"))
        })
        .register("Parent", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_sub_orchestration("Child", "kit").await
        })
        .register("Child", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity_on_session("Hello", name, "desk").await
        })
        .register("Mail", |ctx: OrchestrationContext, _: String| async move {
            let first = ctx.dequeue_event("box").await;
            Ok(format!("{first}, {}", ctx.dequeue_event("box").await))
        })
        .build();
    let provider: Arc<dyn Provider> = Arc::new(it.provider().clone());
    let options = RuntimeOptions {
        worker_tag_filter: duroxide::providers::TagFilter::default_and(["polite"]),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(provider.clone(), activities, orchestrations, options).await;
    let client = Client::new(provider);
    // An event before its subscription is lost, which comes with the key.
    eventually("its next execution waits", async || {
        it.provider().get_kv_value("between", "round").await.expect("key").is_some()
    })
    .await;
    client.raise_event("between", "go", "on").await.expect("raise");
    let expected = [
        ("rest", "rested"),
        ("greet", "hello ann"),
        ("rounds", "2 a \0on"),
        ("between", "2  on"),
        ("parent", "hello kit"),
        ("mail", "first, second"),
        ("fresh", "rested"),
    ];
    for (instance, output) in expected {
        match client.wait_for_orchestration(instance, PATIENCE).await {
            Ok(OrchestrationStatus::Completed { output: found, .. }) => assert_eq!(found, output, "{instance}"),
            other => panic!("{instance}: {other:?}"),
        }
    }
    assert_eq!(it.provider().get_kv_value("rounds", "round").await.expect("key").as_deref(), Some("2"));
    runtime.shutdown(None).await;
}

/// The order is kept, attempts are continued, and expired leases are not imported.
/// Fetches by hand: the activities of the old queue in its order, and a message that was tried once.
#[tokio::test(flavor = "multi_thread")]
async fn queues_keep_their_order_and_their_attempts() {
    let it = Move::prepare().await;
    it.import().await.expect("import");
    let order = "select string_agg(activity_id || tag_queue || coalesce(session_id, ''), ' ' order by id) from {schema}.worker_queue";
    let sql = it.new.db.schema().sql(order);
    let order: String = sqlx::query_scalar(&sql).fetch_one(it.provider().pool()).await.expect("read");
    assert_eq!(order, "2desk 3#polite");

    let minute = std::time::Duration::from_secs(60);
    let tags = duroxide::providers::TagFilter::tags(["polite"]);
    let fetched = it.provider().fetch_work_item(minute, PATIENCE, None, &tags).await.expect("fetch");
    let (_, _, attempt) = fetched.expect("the greeting");
    assert_eq!(attempt, 3, "two were made before");
    let mut attempts = HashMap::new();
    while let Some((item, _, attempt)) =
        it.provider().fetch_orchestration_item(minute, std::time::Duration::ZERO, None).await.expect("fetch")
    {
        attempts.insert(item.instance, attempt);
    }
    assert_eq!((attempts["rounds"], attempts["mail"]), (2, 1));
}

/// An import that breaks off leaves whole batches, nothing that could be worked on, and goes on where it was.
/// A trigger lets the batch of one instance fail; then it is removed. A third run has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_continues() {
    let it = Move::prepare().await;
    it.in_new(
        "create function {schema}.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
         create trigger refuse before insert on {schema}.executions for each row when (new.instance_id = 'long')
         execute function {schema}.refuse()",
    )
    .await;
    let source = it.source().batch(2);
    let broken = it.provider().import_from(&source).await.expect_err("the trigger");
    assert!(matches!(broken, Error::Database(_)), "{broken}");
    let begun = it.count("select count(*) from {schema}.instances").await;
    assert!(begun > 0 && begun < 11 && begun % 2 == 0, "whole batches: {begun}");
    assert_eq!(it.count("select count(*) from {schema}.instances where instance_id = 'long'").await, 0);
    let queued =
        "select (select count(*) from {schema}.orchestrator_queue) + (select count(*) from {schema}.worker_queue)";
    assert_eq!(it.count(queued).await, 0, "nothing to work on yet");
    let survey = source.survey(it.old.database(), it.new.db.schema()).await.expect("its own instances are no conflict");
    assert_eq!(survey, HELD);

    it.in_new("drop trigger refuse on {schema}.executions").await;
    assert_eq!(it.provider().import_from(&source).await.expect("the rest"), HELD);
    assert_eq!(it.import().await.expect("nothing to do"), HELD);
    assert_eq!(it.count("select count(*) from {schema}.instances").await, 11);
    assert_eq!(it.count(queued).await, 8);
}

/// If the source has changed since the import began, the copied data is older: the import fails.
/// Interrupts an import, adds an event and continues; then the same after everything was imported.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_changed_meanwhile_is_noticed_before_anything_runs() {
    let it = Move::prepare().await;
    // The counts of the first stage are compared before the second, which this keeps from its end.
    it.in_new("alter table {schema}.sessions add constraint refuse check (session_id <> 'desk')").await;
    it.import().await.expect_err("the constraint");
    it.in_old("insert into {schema}.history values ('mail', 1, 3, 'KeyValuesCleared', '{}', now())").await;
    it.in_new("alter table {schema}.sessions drop constraint refuse").await;
    let said = it.import().await.expect_err("it has changed");
    assert!(matches!(said, Error::Changed { what: "events", copied: 146, held: 147, .. }), "{said}");
    assert_eq!(it.count("select count(*) from {schema}.orchestrator_queue").await, 0);

    it.in_old("delete from {schema}.history where instance_id = 'mail' and event_id = 3").await;
    assert_eq!(it.import().await.expect("as it was"), HELD);
    it.in_old("delete from {schema}.orchestrator_queue where instance_id = 'rest'").await;
    let said = it.import().await.expect_err("the source has changed");
    assert!(matches!(said, Error::Changed { what: "messages", copied: 6, held: 5, .. }), "{said}");
}

/// While an import runs, the source can be read and not written.
/// Stops the import at the target's history with a lock, tries to write, and releases the lock.
#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_write_locked_during_an_import() {
    let it = Arc::new(Move::prepare().await);
    let mut holding = it.new.db.database().begin().await.expect("begin");
    let lock = it.new.db.schema().sql("lock table {schema}.history in access exclusive mode");
    sqlx::query(&lock).execute(&mut *holding).await.expect("hold");
    let importing = tokio::spawn({
        let it = it.clone();
        async move { it.import().await }
    });
    let waiting = it
        .new
        .db
        .schema()
        .sql("select count(*) from pg_locks where not granted and relation = '{schema}.history'::regclass");
    eventually("the import waits for the history", async || {
        let waiting: i64 = sqlx::query_scalar(&waiting).fetch_one(it.old.database().pool()).await.expect("locks");
        waiting > 0
    })
    .await;
    for write in ["update {schema}.orchestrator_queue set attempt_count = 9", "delete from {schema}.worker_queue"] {
        let mut transaction = it.old.database().begin().await.expect("begin");
        sqlx::query("set local lock_timeout = '50ms'").execute(&mut *transaction).await.expect("set");
        let refused = sqlx::query(it.old.schema().sql(write)).execute(&mut *transaction).await.expect_err(write);
        assert_eq!(reveille_pg::Error::from(refused).sqlstate(), Some("55P03"), "{write}");
    }
    it.fingerprint().await;
    holding.rollback().await.expect("let go");
    assert_eq!(importing.await.expect("no panic").expect("import"), HELD);
    it.in_old("update {schema}.orchestrator_queue set attempt_count = 9").await;
}

/// Every reason to reject an import is found by the dry run and by the import alike, with the fix, and without changes.
/// A table of changes of the schemas, and the expected errors.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_rejected_with_the_reason() {
    let in_a_minute = "(extract(epoch from now() + interval '1 min') * 1000)::bigint";
    let lease = |table: &str| format!("update {{schema}}.{table} set locked_until = {in_a_minute}");
    let start = "insert into {schema}.orchestrator_queue (instance_id, work_item) values ('fresh', '{}')";
    let cases: [(&str, &str, &[&str]); 7] = [
        ("drop table {schema}._duroxide_migrations", "", &["not duroxide-pg's"]),
        (
            "alter table {schema}.worker_queue drop column attempt_count; drop table {schema}.kv_delta",
            "",
            &["older", "lacks worker_queue.attempt_count, kv_delta.instance_id,", "0.1.38"],
        ),
        (
            &lease("instance_locks"),
            "",
            &["1 turns, 0 activities and 0 sessions", "until 20", "UTC", "stop every runtime"],
        ),
        (&lease("worker_queue"), "", &["0 turns, 2 activities and 0 sessions", "s from now"]),
        (&lease("sessions"), "", &["0 turns, 0 activities and 1 sessions"]),
        ("", start, &["1 instances", "exist in the target", "\"fresh\""]),
        ("", "insert into {schema}.executions values ('odd' || chr(1) || '11', 7)", &["\"odd\\u{1}1\""]),
    ];
    for (old, new, reasons) in cases {
        let it = Move::prepare().await;
        it.in_old(old).await;
        it.in_new(new).await;
        let surveyed = it.source().survey(it.old.database(), it.new.db.schema()).await.expect_err(old).to_string();
        let refused = it.import().await.expect_err(old).to_string();
        for said in [surveyed, refused] {
            assert!(reasons.iter().all(|reason| said.contains(reason)), "{old}{new}: {said}");
        }
        assert_eq!(it.count("select count(*) from {schema}.instances").await, 0);
    }
}

/// Activities are imported from either peer, whose tables differ here, and one that cannot be read is named before
/// anything runs.
/// Drops the columns that only one of them has, then damages an activity; its text must not appear in the error.
#[tokio::test(flavor = "multi_thread")]
async fn the_instance_of_an_activity_comes_from_its_work_item() {
    let it = Move::prepare().await;
    it.in_old(
        "alter table {schema}.worker_queue drop column instance_id, drop column execution_id, drop column activity_id;
         update {schema}.worker_queue set work_item = '{\"ActivityExecute\":{\"secret\":1}}' where id = 2",
    )
    .await;
    let said = it.import().await.expect_err("the second cannot be read");
    assert!(matches!(said, Error::Unreadable { id: 2, .. }), "{said}");
    assert!(!said.to_string().contains("secret"), "{said}");
    assert_eq!(it.count("select count(*) from {schema}.orchestrator_queue").await, 0);

    it.in_old("delete from {schema}.worker_queue where id = 2").await;
    assert_eq!(it.import().await.expect("the other"), Imported { activities: 1, ..HELD });
    let whose = "select count(*) from {schema}.worker_queue where instance_id = 'parent::sub::2' and execution_id = 1
                 and activity_id = 2 and session_id = 'desk' and tag_queue = ''";
    assert_eq!(it.count(whose).await, 1);
}

/// Invalid names of the source, and the target as its own source.
/// Imports from a missing schema, from one of this library, and from the target.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_needs_a_source_of_its_own() {
    let (it, other) = (Fixture::new().await, Fixture::new().await);
    let refused = async |name: &str| {
        let source = Source::new(name).expect("a name");
        it.provider.import_from(&source).await.expect_err("no source").to_string()
    };
    assert!(refused("nowhere \"at all\"").await.contains("there is no schema \"nowhere \\\"at all\\\"\""));
    assert!(refused(other.db.schema().name()).await.contains("not duroxide-pg's"));
    assert!(refused(it.db.schema().name()).await.contains("import into another schema"));
    assert!(Source::new("").is_err());
}

/// A dry run counts, and leaves nothing behind: neither in an existing target nor in a missing one.
/// The second target is a name that no schema has.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing() {
    let it = Move::prepare().await;
    let nowhere = Schema::new(&format!("{}_nowhere", it.new.db.schema().name())).expect("a name");
    for target in [it.new.db.schema(), &nowhere] {
        assert_eq!(it.source().survey(it.old.database(), target).await.expect("survey"), HELD);
    }
    let made = "select (select count(*) from {schema}.instances)
                + (select count(*) from pg_tables where schemaname = {schema_text} and tablename = 'imports')
                + (select count(*) from pg_namespace where nspname = {schema_text} || '_nowhere')";
    assert_eq!(it.count(made).await, 0);
}

/// An invalid statement of the import must be found here, even if it is rarely sent.
/// Prepares every statement file, between two schemas.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_fits_both_schemas() {
    let it = Move::prepare().await;
    it.in_new(include_str!("../../db/statements/import/create_progress.sql")).await;
    let files = sql_files(concat!(env!("CARGO_MANIFEST_DIR"), "/db/statements/import"));
    let source = it.old.schema().quoted();
    let render = |text: &str| {
        let text = text.replace("{source}", source).replace("{events_per_row}", "50");
        text.replace("{bytes_per_row}", "65536").replace("{bytes_per_read}", "65536")
    };
    let files: Vec<(String, String)> = files.into_iter().map(|(name, text)| (name, render(&text))).collect();
    prepare_all(it.new.db.database(), it.new.db.schema(), &files).await;
}

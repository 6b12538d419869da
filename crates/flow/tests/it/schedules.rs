//! Schedules: each tick submits one task, for any number of servers, and after missed ticks.

use std::time::Duration;

use reveille_flow::{Error, Flow, Missed, Options, Schedule, ScheduleFilter, Scheduled};
use reveille_pg::testing::{TestDb, eventually};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Month, OffsetDateTime, Time};
use tokio::sync::oneshot;

use crate::fixture::{Fixture, NAMESPACE, read, worker};

const EVERY_SECOND: &str = "* * * * * *";
const NEVER: [OffsetDateTime; 0] = [];

/// A separate server: another thread, runtime and pool, so that it learns of others only through the database.
struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Started, and waiting for schedules.
    async fn start(db: &TestDb) -> Server {
        let (url, schema) = (db.url().to_owned(), db.schema().clone());
        let (stop, stopped) = oneshot::channel();
        let (ready, waiting) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let db =
                    reveille_pg::Database::connect(&url, reveille_pg::Options::default()).await.expect("a database");
                let flow = Flow::open(db.clone(), schema, Options::default()).await.expect("a flow");
                eventually("it hears", async || flow.health().is_connected()).await;
                let orchestrator = flow.orchestrate();
                eventually("an empty poll", async || flow.schedule_claims().empty_polls > 0).await;
                ready.send(()).expect("the receiver waits");
                let _ = stopped.await;
                orchestrator.shutdown().await;
                flow.close().await;
                db.close().await;
            });
        });
        waiting.await.expect("it started");
        Server { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

async fn fixture() -> Fixture {
    Fixture::with("[{name: a}]").await
}

fn schedule(name: &str) -> Schedule {
    Schedule {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        template: "t".to_owned(),
        version: "1.0.0".to_owned(),
        context: json!({"n": name}).into(),
        priority: 0,
        tags: vec!["tagged".to_owned()],
        cron: None,
        time_zone: None,
        at: None,
        missed: Missed::default(),
        grace_seconds: 60,
        paused: None,
    }
}

fn cron(name: &str, cron: &str) -> Schedule {
    Schedule { cron: Some(cron.to_owned()), ..schedule(name) }
}

/// A time in this many seconds; the database's clock is that of this machine.
fn once(name: &str, seconds: i64) -> Schedule {
    Schedule { at: Some(OffsetDateTime::now_utc() + time::Duration::seconds(seconds)), ..schedule(name) }
}

impl Fixture {
    async fn put(&self, schedule: Schedule) -> Scheduled {
        self.put_schedule(schedule).await.expect("a schedule")
    }

    async fn shown(&self, name: &str) -> Scheduled {
        self.flow.schedule(NAMESPACE, name, 0).await.expect("a schedule")
    }

    async fn sql(&self, text: &str, name: &str, at: Option<OffsetDateTime>) {
        let sql = self.db.schema().sql(text);
        sqlx::query(&sql).bind(name).bind(at).execute(self.db.database().pool()).await.expect(text);
    }

    /// Sets the schedule back to this tick, as if no server had run since.
    async fn set_back(&self, name: &str, tick: OffsetDateTime) {
        let text = "update {schema}.schedule set next_at = $2, due_at = $2 where name = $1";
        self.sql(text, name, Some(tick)).await;
    }

    /// The ticks that have submitted tasks, in the order of submission.
    async fn ran(&self, name: &str) -> Vec<OffsetDateTime> {
        let sql = self.db.schema().sql(
            "select split_part(d.correlation_id, '@', 2) from {schema}.task_detail d
             where d.initiator = 'schedule' and split_part(d.correlation_id, '@', 1) = $1 order by d.task_id",
        );
        let ran: Vec<String> =
            sqlx::query_scalar(&sql).bind(name).fetch_all(self.db.database().pool()).await.expect("tasks");
        ran.iter().map(|tick| OffsetDateTime::parse(tick, &Rfc3339).expect("a tick")).collect()
    }

    async fn has_run(&self, name: &str, times: usize) {
        eventually(&format!("{name} has run {times} times"), async || self.ran(name).await.len() >= times).await;
    }

    /// Checks that no step comes, for longer than a trailing sweep takes.
    async fn wait_in_vain(&self) {
        let until = tokio::time::Instant::now() + 2 * reveille_wake::TRAILING;
        assert!(self.claim(&worker(), 1, Some(until)).await.expect("a claim").is_empty());
    }

    /// The schedule has no further tick.
    async fn is_done(&self, name: &str) {
        let is_done = async || self.shown(name).await.next_at.is_none_or(|next| next > OffsetDateTime::now_utc());
        eventually(&format!("{name} is done"), is_done).await;
    }
}

/// A schedule for a single time submits one task then, which names its schedule.
#[tokio::test]
async fn a_task_is_submitted_at_its_time() {
    let flow = fixture().await;
    let put = flow.put(once("single", 1)).await;
    let at = put.schedule.at.expect("a time");
    assert_eq!((put.next_at, put.last_task), (Some(at), None));
    // Not earlier: on a busy machine the time might have passed already.
    let _orchestrator = flow.orchestrate();
    let step = flow.next().await;
    assert!(OffsetDateTime::now_utc() >= at, "too early");
    assert_eq!(read(&step.context), json!({"n": "single"}), "the context is unchanged");
    let tick = at.format(&Rfc3339).expect("a time");
    assert_eq!(step.correlation_id, Some(format!("single@{tick}")));
    eventually("it is over", async || flow.shown("single").await.next_at.is_none()).await;
    let shown = flow.shown("single").await;
    assert_eq!((shown.last_at, shown.last_task, shown.last_error), (Some(at), Some(step.token.task), None));
    let text = "select initiator, reason, tags from {schema}.task_detail where task_id = $1";
    let submitted: (String, String, Vec<String>) = sqlx::query_as(flow.db.schema().sql(text))
        .bind(step.token.task)
        .fetch_one(flow.db.database().pool())
        .await
        .expect("a task");
    assert_eq!(submitted, ("schedule".to_owned(), format!("schedule single at {tick}"), vec!["tagged".to_owned()]));
    assert_eq!(flow.ran("single").await, [at]);
}

/// Two servers, each with its own connections, and one run of every tick.
#[tokio::test]
async fn one_run_for_each_tick_on_two_servers() {
    let flow = fixture().await;
    let (_one, _other) = (Server::start(&flow.db).await, Server::start(&flow.db).await);
    let first = flow.put(cron("often", EVERY_SECOND)).await.next_at.expect("a tick");
    flow.has_run("often", 5).await;
    flow.pause_schedule(NAMESPACE, "often").await.expect("a schedule");
    let ran = flow.ran("often").await;
    let expected = (0..ran.len()).map(|n| first + Duration::from_secs(n as u64)).collect::<Vec<_>>();
    assert_eq!(ran, expected);
}

/// A schedule that is created on one server starts on another, which was idle.
#[tokio::test]
async fn a_schedule_starts_on_another_server() {
    let flow = fixture().await;
    let _server = Server::start(&flow.db).await;
    flow.wait_in_vain().await;
    flow.put(once("single", 0)).await;
    flow.has_run("single", 1).await;
}

/// While no tick is due, no statement is sent: first without a schedule, then with one in the future.
/// The wake-ups of a change are over first.
#[tokio::test]
async fn waiting_for_a_tick_sends_no_statements() {
    let flow = fixture().await;
    let _orchestrator = flow.orchestrate();
    let polls = || (flow.schedule_claims().polls, flow.schedule_claims().sweeps);
    for _ in 0..2 {
        let is_at_rest = async || {
            let before = polls();
            flow.wait_in_vain().await;
            before.0 > 0 && polls() == before
        };
        eventually("it is at rest", is_at_rest).await;
        flow.put(cron("rarely", "@yearly")).await;
    }
}

/// A server that stops leaves the next ticks to the other.
#[tokio::test]
async fn another_server_continues() {
    let flow = fixture().await;
    let (one, _other) = (Server::start(&flow.db).await, Server::start(&flow.db).await);
    flow.put(Schedule { missed: Missed::All, ..cron("often", EVERY_SECOND) }).await;
    flow.has_run("often", 2).await;
    drop(one);
    let before = flow.ran("often").await.len();
    flow.has_run("often", before + 3).await;
    let ran = flow.ran("often").await;
    assert!(ran.windows(2).all(|pair| pair[1] - pair[0] == time::Duration::SECOND), "{ran:?}");
}

/// Thirty months without a server: `skip` runs no missed tick, `latest` the last one, `all` each in order, in several
/// polls.
#[tokio::test]
async fn missed_ticks_are_caught_up_or_skipped() {
    let flow = fixture().await;
    let now = OffsetDateTime::now_utc();
    // A day of the month that is neither today nor tomorrow.
    let day = (now.day() + 13) % 28 + 1;
    let monthly = |name: &str, missed| Schedule { missed, ..cron(name, &format!("30 4 {day} * *")) };
    let mut month = now.replace_time(Time::from_hms(4, 30, 0).expect("a time")).replace_day(1).expect("a day");
    let mut missed = Vec::new();
    for _ in 0..31 {
        missed.push(month.replace_day(day).expect("a day"));
        month = (month - time::Duration::days(1)).replace_day(1).expect("a day");
    }
    missed.reverse();
    missed.retain(|tick| *tick < now);
    for (name, policy) in [("skip", Missed::Skip), ("latest", Missed::Latest), ("all", Missed::All)] {
        flow.put(monthly(name, policy)).await;
        flow.set_back(name, missed[0]).await;
    }
    let _orchestrator = flow.orchestrate();
    for name in ["skip", "latest", "all"] {
        flow.is_done(name).await;
    }
    assert_eq!(flow.ran("skip").await, NEVER);
    assert_eq!(flow.ran("latest").await, missed[missed.len() - 1..]);
    assert_eq!(flow.ran("all").await, missed);
    for name in ["skip", "latest", "all"] {
        let next = flow.shown(name).await.next_at.expect("a tick");
        assert_eq!((next.day(), next.hour()), (day, 4), "{name} goes on");
    }
}

/// A late tick within the grace period runs, and a missed one does not: of two schedules with `skip`, one was due
/// within the grace period.
#[tokio::test]
async fn a_late_tick_is_not_missed_yet() {
    let flow = fixture().await;
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).expect("a time");
    let late = now - time::Duration::minutes(30);
    for (name, grace_seconds) in [("late", 7_200), ("missed", 600)] {
        flow.put(Schedule { missed: Missed::Skip, grace_seconds, ..cron(name, "@yearly") }).await;
        flow.set_back(name, late).await;
    }
    let _orchestrator = flow.orchestrate();
    flow.is_done("late").await;
    flow.is_done("missed").await;
    assert_eq!(flow.ran("late").await, [late]);
    assert_eq!(flow.ran("missed").await, NEVER);
}

/// A paused schedule does not run, and its ticks do not count as missed. Another schedule, due later, shows when it
/// would have run.
#[tokio::test]
async fn a_paused_schedule_does_not_run() {
    let flow = fixture().await;
    flow.put(Schedule { missed: Missed::All, ..cron("often", EVERY_SECOND) }).await;
    let paused = flow.pause_schedule(NAMESPACE, "often").await.expect("a schedule");
    assert_eq!((paused.schedule.paused, paused.next_at), (Some(true), None));
    // A deployment that sends it again does not resume it.
    let again = flow.put(Schedule { priority: 3, missed: Missed::All, ..cron("often", EVERY_SECOND) }).await;
    assert_eq!((again.schedule.paused, again.next_at), (Some(true), None));
    let _orchestrator = flow.orchestrate();
    flow.put(once("later", 2)).await;
    flow.has_run("later", 1).await;
    assert_eq!(flow.ran("often").await, NEVER);
    let before = OffsetDateTime::now_utc() - time::Duration::SECOND;
    let resumed = flow.resume_schedule(NAMESPACE, "often").await.expect("a schedule");
    assert_eq!(resumed.schedule.paused, Some(false));
    flow.has_run("often", 2).await;
    let ran = flow.ran("often").await;
    assert!(ran.iter().all(|tick| *tick > before), "{ran:?}");
}

/// A single time that passed during a pause runs when the schedule is resumed, and only once.
#[tokio::test]
async fn a_single_time_waits_for_its_schedule() {
    let flow = fixture().await;
    let _orchestrator = flow.orchestrate();
    let at = flow.put(Schedule { paused: Some(true), ..once("single", 0) }).await.schedule.at.expect("a time");
    flow.put(once("later", 1)).await;
    flow.has_run("later", 1).await;
    assert_eq!(flow.ran("single").await, NEVER);
    flow.resume_schedule(NAMESPACE, "single").await.expect("a schedule");
    flow.has_run("single", 1).await;
    eventually("it is over", async || flow.shown("single").await.next_at.is_none()).await;
    flow.pause_schedule(NAMESPACE, "single").await.expect("a schedule");
    let resumed = flow.resume_schedule(NAMESPACE, "single").await.expect("a schedule");
    assert_eq!((resumed.next_at, resumed.last_at), (None, Some(at)));
}

/// The same schedule again changes nothing. Other changes keep its next tick, new times start again.
#[tokio::test]
async fn replacing_keeps_unchanged_times() {
    let flow = fixture().await;
    let first = flow.put(cron("s", "@yearly")).await;
    let due = OffsetDateTime::now_utc().replace_nanosecond(0).expect("a time") - time::Duration::days(1);
    flow.set_back("s", due).await;
    let same = flow.put(Schedule { time_zone: Some("UTC".to_owned()), ..cron("s", "@yearly") }).await;
    assert_eq!((same.schedule_uuid, same.updated_at, same.next_at), (first.schedule_uuid, first.updated_at, Some(due)));
    let other = flow.put(Schedule { context: json!([1]).into(), ..cron("s", "@yearly") }).await;
    assert_eq!(
        (other.schedule_uuid, other.next_at, &other.schedule.context),
        (first.schedule_uuid, Some(due), &json!([1]).into())
    );
    assert!(other.updated_at > first.updated_at);
    let zoned = Schedule { time_zone: Some("asia/tokyo".to_owned()), ..cron("s", "@yearly") };
    let next = flow.put(zoned).await;
    assert_eq!(next.schedule.time_zone.as_deref(), Some("Asia/Tokyo"));
    let next = next.next_at.expect("a tick");
    assert_eq!((next.month(), next.day(), next.hour()), (Month::December, 31, 15));
    let times = flow.flow.schedule(NAMESPACE, "s", 5).await.expect("a schedule").upcoming;
    assert_eq!(times.iter().map(|tick| tick.year() - times[0].year()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// If a schedule is replaced repeatedly while it runs, every tick still runs once.
#[tokio::test]
async fn replacing_while_it_runs_loses_no_tick() {
    let flow = fixture().await;
    let _server = Server::start(&flow.db).await;
    let put = |n: i16| Schedule { priority: n % 3, missed: Missed::All, ..cron("often", EVERY_SECOND) };
    let first = flow.put(put(0)).await.next_at.expect("a tick");
    let mut changes = 0;
    while flow.ran("often").await.len() < 4 {
        changes += 1;
        flow.put(put(changes)).await;
    }
    assert!(changes > 4, "it was not replaced while it ran");
    let ran = flow.ran("often").await;
    // A tick during the first write has run before the response named the next.
    assert!(ran[0] <= first, "{first} did not run: {ran:?}");
    assert_eq!(ran, (0..ran.len()).map(|n| ran[0] + Duration::from_secs(n as u64)).collect::<Vec<_>>());
}

/// If a schedule is paused while a server submits one of its ticks, that tick runs and is recorded, and the schedule
/// stops.
/// A lock on the tasks stops the server between taking the schedule and submitting.
#[tokio::test]
async fn a_pause_during_a_tick_takes_effect() {
    let flow = fixture().await;
    let mut lock = flow.db.database().begin().await.expect("a transaction");
    let text = flow.db.schema().sql("lock table {schema}.task_detail in share mode");
    sqlx::query(&text).execute(&mut *lock).await.expect("a lock");
    let _server = Server::start(&flow.db).await;
    let tick = flow.put(cron("often", EVERY_SECOND)).await.next_at.expect("a tick");
    let taken = flow.db.schema().sql("select due_at > next_at + interval '5 s' from {schema}.schedule");
    let is_taken = async || sqlx::query_scalar(&taken).fetch_one(flow.db.database().pool()).await.expect("a schedule");
    eventually("a server has taken it", is_taken).await;
    flow.pause_schedule(NAMESPACE, "often").await.expect("a schedule");
    lock.rollback().await.expect("no lock");
    eventually("its tick is noted", async || flow.shown("often").await.last_at == Some(tick)).await;
    let shown = flow.shown("often").await;
    assert_eq!((shown.schedule.paused, shown.next_at), (Some(true), None));
    assert!(shown.last_task.is_some());
    assert_eq!(flow.ran("often").await, [tick]);
}

/// If a server dies after it has submitted a tick and before it has advanced the schedule, the tick does not run again,
/// even if the template was changed meanwhile.
#[tokio::test]
async fn a_submitted_tick_does_not_run_again() {
    let flow = fixture().await;
    flow.template("u", "[{name: b}]").await;
    let _orchestrator = flow.orchestrate();
    let at = flow.put(once("single", 0)).await.schedule.at.expect("a time");
    eventually("it is over", async || flow.shown("single").await.next_at.is_none()).await;
    let task = flow.shown("single").await.last_task;
    for template in ["t", "u"] {
        let text = "update {schema}.schedule set next_at = $2, due_at = 'infinity', last_at = null, last_task = null where name = $1";
        flow.sql(text, "single", Some(at)).await;
        let put = Schedule { template: template.to_owned(), priority: 1, at: Some(at), ..schedule("single") };
        flow.put(put).await;
        eventually("it is over", async || flow.shown("single").await.next_at.is_none()).await;
        let shown = flow.shown("single").await;
        assert_eq!((shown.last_at, shown.last_task, shown.last_error), (Some(at), task, None));
    }
    assert_eq!(flow.ran("single").await, [at]);
}

/// A missing template, and a context that it rejects: the schedule has the reason, and continues with its next tick;
/// others are not delayed.
#[tokio::test]
async fn a_tick_that_cannot_run_is_skipped() {
    let flow = fixture().await;
    flow.template("gone", "[{name: b}]").await;
    flow.put(Schedule { template: "gone".to_owned(), ..cron("broken", EVERY_SECOND) }).await;
    flow.put(cron("sound", EVERY_SECOND)).await;
    flow.sql("delete from {schema}.template where name = $1 and $2::timestamptz is null", "gone", None).await;
    // The template is in its cache.
    let _server = Server::start(&flow.db).await;
    let reason = "no template tests/gone with version \"1.0.0\"";
    let is_said = async || flow.shown("broken").await.last_error.as_deref() == Some(reason);
    eventually("the reason is said", is_said).await;
    let first = flow.shown("broken").await;
    eventually("it goes on", async || flow.shown("broken").await.last_at > first.last_at).await;
    flow.has_run("sound", 2).await;
    assert_eq!(first.last_task, None);
    // The template exists again: tasks are submitted, and the error is cleared.
    flow.template("gone", "[{name: b}]").await;
    flow.has_run("broken", 1).await;
    eventually("nothing is wrong", async || flow.shown("broken").await.last_error.is_none()).await;
}

/// An invalid schedule is rejected with the reason, and changes nothing.
#[tokio::test]
async fn invalid_input_is_rejected() {
    let flow = fixture().await;
    let schema = "{type: object, required: [order]}";
    let text = format!("name: strict\nnamespace_name: {NAMESPACE}\ninput_schema: {schema}\nsteps: [{{name: a}}]\n");
    flow.register(&text).await.expect("a template");
    flow.put(cron("s", "@yearly")).await;
    let good = || cron("s", "@daily");
    let zone = |zone: &str| Schedule { time_zone: Some(zone.to_owned()), ..good() };
    for (wrong, reason) in [
        (schedule("s"), "`cron`: give either `cron` or `at`"),
        (Schedule { cron: Some("@daily".to_owned()), ..once("s", 60) }, "`at`: cannot be combined with `cron`"),
        (cron("s", "0 25 * * *"), "`cron`: invalid cron expression \"0 25 * * *\": "),
        (cron("s", "0 0 30 2 *"), "`cron`: names a day that does not exist"),
        (Schedule { paused: Some(true), ..cron("s", "0 0 31 4 *") }, "`cron`: names a day that does not exist"),
        (
            Schedule { time_zone: Some("Europe/Berlin".to_owned()), ..cron("s", "*/15 2 * 3 0L") },
            "`cron`: never occurs: the clock skips it",
        ),
        (cron("s", ""), "`cron`: invalid cron expression \"\": "),
        (zone("Mars/Olympus"), "`time_zone`: \"Mars/Olympus\" is not the name of a time zone"),
        (Schedule { time_zone: Some("UTC".to_owned()), ..once("s", 60) }, "`time_zone`: allowed only with `cron`"),
        (once("s", -120), "`at`: passed more than `grace_seconds` ago"),
        (Schedule { template: "unknown".to_owned(), ..good() }, "no template tests/unknown"),
        (Schedule { namespace: "unknown".to_owned(), ..good() }, "no template unknown/t"),
        (Schedule { version: "2".to_owned(), ..good() }, "with version \"2\""),
        (Schedule { template: "strict".to_owned(), ..good() }, "`context`: \"order\" is a required property"),
        (Schedule { tags: vec!["x".repeat(201)], ..good() }, "`tags`: must have at most 200 characters, got 201"),
        (Schedule { grace_seconds: 0, ..good() }, "`grace_seconds`: must be between 1 and 604800, got 0"),
        (Schedule { grace_seconds: 700_000, ..good() }, "`grace_seconds`: must be between 1 and 604800, got 700000"),
        (Schedule { name: String::new(), ..good() }, "`name`: must have between 1 and 100 characters, got 0"),
        (Schedule { name: "x".repeat(101), ..good() }, "`name`: must have between 1 and 100 characters, got 101"),
        (Schedule { name: "a\0".to_owned(), ..good() }, "`name`: must not contain control characters"),
    ] {
        let error = flow.put_schedule(wrong).await.expect_err(reason).to_string();
        assert!(error.contains(reason), "{error} is not {reason}");
    }
    let all = flow.schedules(&ScheduleFilter::default()).await.expect("schedules").schedules;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].schedule.cron.as_deref(), Some("@yearly"));
    // The longest name fits into the name of its tasks.
    flow.put(once(&"🐘".repeat(100), 0)).await;
    let _orchestrator = flow.orchestrate();
    flow.next().await;
}

/// Schedules are found, run manually, and removed; and the form that a client reads can be written back.
#[tokio::test]
async fn schedules_are_listed_run_and_removed() {
    let flow = fixture().await;
    flow.template("u", "[{name: b}]").await;
    for name in ["a", "b", "c"] {
        flow.put(cron(name, "@yearly")).await;
    }
    flow.put(Schedule { template: "u".to_owned(), ..cron("d", "@yearly") }).await;
    flow.pause_schedule(NAMESPACE, "b").await.expect("a schedule");
    let names = async |filter: ScheduleFilter| -> String {
        let found = flow.schedules(&filter).await.expect("schedules").schedules;
        found.iter().map(|found| found.schedule.name.as_str()).collect()
    };
    let any = ScheduleFilter::default;
    assert_eq!(names(any()).await, "abcd");
    assert_eq!(names(ScheduleFilter { paused: Some(false), ..any() }).await, "acd");
    assert_eq!(names(ScheduleFilter { template: Some("u".to_owned()), ..any() }).await, "d");
    assert_eq!(names(ScheduleFilter { namespace: Some("other".to_owned()), ..any() }).await, "");
    let b = flow.shown("b").await.schedule_uuid;
    assert_eq!(names(ScheduleFilter { after: Some(b), limit: Some(1), ..any() }).await, "c");
    flow.schedules(&ScheduleFilter { limit: Some(0), ..any() }).await.expect_err("no limit");

    let made = flow.run_schedule(NAMESPACE, "b").await.expect("a task").task_uuid;
    assert_eq!(flow.next().await.token.task, made);
    assert_eq!(flow.shown("b").await.last_task, None, "it is not a tick");

    flow.delete_schedule(NAMESPACE, "a").await.expect("a schedule");
    assert_eq!(names(any()).await, "bcd");
    for error in [
        flow.delete_schedule(NAMESPACE, "a").await.expect_err("gone"),
        flow.pause_schedule(NAMESPACE, "a").await.expect_err("gone"),
        flow.resume_schedule(NAMESPACE, "a").await.expect_err("gone"),
        flow.run_schedule(NAMESPACE, "a").await.expect_err("gone"),
        flow.flow.schedule(NAMESPACE, "a", 0).await.expect_err("gone"),
    ] {
        assert!(matches!(error, Error::NoSchedule { .. }), "{error}");
    }

    let text =
        json!({"namespace": NAMESPACE, "name": "e", "template": "t", "version": "1.0.0", "at": "2100-01-01T00:00:00Z"});
    let schedule: Schedule = serde_json::from_value(text).expect("a schedule");
    let shown: Value = serde_json::to_value(flow.put(schedule).await).expect("JSON");
    assert_eq!(shown["next_at"], "2100-01-01T00:00:00Z");
    assert_eq!(
        (&shown["missed"], &shown["grace_seconds"], &shown["paused"]),
        (&json!("latest"), &json!(60), &json!(false))
    );
}

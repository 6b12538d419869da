//! Metrics reach the application's recorder under their documented names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use reveille_pg::Database;
use reveille_pg::testing::{Proxy, TestDb};

use crate::fixture::{
    OtherProgram, briefly_polling, connected, eventually, options, start_connected, take, waiter, waiting,
};

/// Collects the names and kinds of recorded metrics.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeSet<(String, &'static str)>>>);

/// One metric.
struct Instrument {
    name: String,
    kind: &'static str,
    recorded: Recorded,
}

impl Instrument {
    fn note(&self) {
        self.recorded.0.lock().expect("no panic").insert((self.name.clone(), self.kind));
    }
}

impl CounterFn for Instrument {
    fn increment(&self, by: u64) {
        if by > 0 {
            self.note();
        }
    }

    fn absolute(&self, _: u64) {
        self.note();
    }
}

impl GaugeFn for Instrument {
    fn increment(&self, _: f64) {
        self.note();
    }

    fn decrement(&self, _: f64) {
        self.note();
    }

    fn set(&self, _: f64) {
        self.note();
    }
}

impl HistogramFn for Instrument {
    fn record(&self, _: f64) {
        self.note();
    }
}

impl Recorded {
    fn instrument(&self, key: &Key, kind: &'static str) -> Arc<Instrument> {
        Arc::new(Instrument { name: key.name().to_owned(), kind, recorded: self.clone() })
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.instrument(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.instrument(key, "gauge"))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.instrument(key, "histogram"))
    }
}

/// Every documented metric is recorded, under its name and kind, by a run in which every counted event happens.
/// The test has its own recorder; a proxy, a lock and a small registry cause the faults.
#[tokio::test(flavor = "multi_thread")]
async fn every_documented_metric_is_recorded() {
    let recorded = Recorded::default();
    metrics::set_global_recorder(recorded.clone()).expect("no other recorder");
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let behind = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let small = reveille_wake::Options { max_waiters: 1, ..briefly_polling() };
    let jobs = start_connected(&behind, db.schema(), small).await;
    let mut other = OtherProgram::of(&db).await;

    // A waiter too many, wake-ups from here and from another program, and an item given back.
    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    jobs.claims.claim_now("q".to_owned(), 1, Duration::ZERO).await.expect_err("no room");
    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    let job = waits.await.expect("served");
    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    other.insert("q").await;
    waits.await.expect("served");
    other.insert("given").await;
    drop(jobs.claims.claim_now("given".to_owned(), 1, Duration::from_secs(60)).await.expect("a claim").expect("a job"));

    // A locked row: skipped by a poll, and waited for by a write that is sent alone.
    let held = other.insert("held").await;
    other.run(&format!("begin; select from {{schema}}.job where id in ({held}, {}) for update", job.id)).await;
    let skips = waiter(&jobs, "held");
    eventually("a poll skips the row", async || jobs.claims.counts().skipped_polls > 0).await;
    let finishes = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.done("q", &job).await }
    });
    let single = (String::from("reveille_wake_single_writes_total"), "counter");
    eventually("a write is sent alone", async || recorded.0.lock().expect("no panic").contains(&single)).await;
    other.run("commit").await;
    skips.await.expect("served");
    assert!(finishes.await.expect("no panic").expect("an outcome"));

    // A poll that fails, aggressive polling, and the listener lost and reconnected.
    let cut = proxy.cut_request_with("fails");
    let fails = waiter(&jobs, "fails");
    cut.happened().await;
    eventually("the poll failed", async || jobs.claims.counts().failed_polls > 0).await;
    proxy.cut();
    eventually("the loss is detected", async || !jobs.wake.health().is_connected()).await;
    connected(&jobs).await;
    eventually("it sweeps", async || jobs.claims.counts().sweeps > 0).await;
    other.insert("fails").await;
    fails.await.expect("served");

    let recorded = recorded.0.lock().expect("no panic").clone();
    let documented: BTreeSet<(String, &str)> =
        reveille_wake::METRICS.iter().map(|metric| (metric.name.to_owned(), metric.kind)).collect();
    assert_eq!(recorded, documented);
}

/// Counts are exact: one poll for the new waiter, one for the wake-up.
#[tokio::test(flavor = "multi_thread")]
async fn polls_and_items_are_counted_exactly() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    let counts = jobs.claims.counts();
    assert_eq!((counts.polls, counts.empty_polls, counts.items), (1, 1, 0));
    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    waits.await.expect("served");
    let counts = jobs.claims.counts();
    assert_eq!((counts.polls, counts.empty_polls, counts.items), (2, 1, 1));
    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    take(&jobs, "q").await;
    assert_eq!(jobs.claims.counts().items, 2);
    let health = jobs.claims.health();
    assert_eq!((&*health.name, health.polling, health.waiters, health.groups), ("jobs", false, 0, 1));
}

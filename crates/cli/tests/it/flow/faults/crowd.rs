//! Load with faults: many submitters and workers, and a check that every response was true.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::Schema;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::fixture::{BASE, Client, text};
use crate::failover_client::FailoverClient;
use crate::http::Answer;
use crate::process::PATIENCE;

/// A diamond.
const STEPS: [(&str, &str); 4] = [("a", "[]"), ("b", "[a]"), ("c", "[a]"), ("d", "[b, c]")];
/// Enough attempts for several deaths.
const RETRY: &str = "{max_attempts: 20, backoff: none}";
/// Open tasks per submitter, steps per claim, and the lease.
const TASKS: usize = 8;
const AT_ONCE: usize = 4;
const LEASE: Duration = Duration::from_secs(2);
/// The longest wait for a step or the end of a task before the request is repeated.
const WAIT: Duration = Duration::from_secs(20);
/// The pause before an unanswered request is repeated.
const PAUSE: Duration = Duration::from_millis(50);

/// Submitters and workers, and the responses they received.
pub(super) struct Crowd {
    seen: Arc<Seen>,
    submitters: JoinSet<()>,
    workers: JoinSet<()>,
    /// Stops the submitters; then the workers.
    enough: watch::Sender<bool>,
    over: watch::Sender<bool>,
}

struct Seen {
    /// The tasks of answered submissions.
    tasks: Mutex<BTreeSet<String>>,
    /// The tokens of completions that were acknowledged.
    done: Mutex<BTreeSet<String>>,
    completed: watch::Sender<usize>,
    unanswered: AtomicUsize,
    numbers: AtomicUsize,
}

impl Crowd {
    /// Registers the template and starts submitters and workers. Each knows all servers and starts at another one.
    pub(super) async fn gather(client: &Client, servers: &[SocketAddr]) -> Crowd {
        let step = |(name, parents)| format!("{{name: {name}, dependencies: {parents}, retry: {RETRY}}}");
        client.template("crowd", &format!("[{}]", STEPS.map(step).join(", "))).await;
        let seen = Arc::new(Seen {
            tasks: Mutex::default(),
            done: Mutex::default(),
            completed: watch::Sender::new(0),
            unanswered: AtomicUsize::new(0),
            numbers: AtomicUsize::new(0),
        });
        let (enough, over) = (watch::Sender::new(false), watch::Sender::new(false));
        let mut crowd = Crowd { seen, submitters: JoinSet::new(), workers: JoinSet::new(), enough, over };
        crowd.join(servers, 3, 4);
        crowd
    }

    /// Adds submitters and workers.
    pub(super) fn join(&mut self, servers: &[SocketAddr], submitters: usize, workers: usize) {
        for number in 0..submitters {
            let client = FailoverClient::new(BASE, servers, number);
            self.submitters.spawn(submit(self.seen.clone(), client, self.enough.subscribe()));
        }
        for number in 0..workers {
            let client = FailoverClient::new(BASE, servers, number);
            self.workers.spawn(work(self.seen.clone(), client, self.over.subscribe()));
        }
    }

    /// Waits until so many more steps are complete.
    pub(super) async fn busy(&self, more: usize) {
        let mut completed = self.seen.completed.subscribe();
        let enough = *completed.borrow() + more;
        let waited = timeout(PATIENCE, completed.wait_for(|now| *now >= enough)).await;
        assert!(waited.is_ok(), "hardly anything happens: {} of {enough}", *self.seen.completed.borrow());
    }

    /// The number of unanswered requests.
    pub(super) fn unanswered(&self) -> usize {
        self.seen.unanswered.load(Ordering::Relaxed)
    }

    /// Waits for all submitted tasks, then stops the workers. Checks that the database agrees with the responses: every
    /// task exists and is complete, and each step was completed once, by the worker whose report was accepted.
    pub(super) async fn finish(mut self, pool: &PgPool, schema: &Schema) {
        for (over, people) in [(&self.enough, &mut self.submitters), (&self.over, &mut self.workers)] {
            over.send_replace(true);
            while let Some(ended) = timeout(PATIENCE, people.join_next()).await.expect("all tasks end in time") {
                ended.expect("all responses are consistent");
            }
        }
        let (tasks, done) = (locked(&self.seen.tasks).clone(), locked(&self.seen.done).clone());
        let ended =
            "select t.id::text, t.state::text, count(*) filter (where s.state = 'complete') from {schema}.task t
                     join {schema}.step s on s.task_id = t.id join {schema}.template m on m.id = t.template_id
                     where m.name = 'crowd' group by t.id";
        let ended: Vec<(String, String, i64)> =
            sqlx::query_as(schema.sql(ended)).fetch_all(pool).await.expect("the tasks");
        let there: BTreeSet<String> = ended.iter().map(|(task, ..)| task.clone()).collect();
        assert_eq!(there, tasks, "what was submitted is not what is there");
        let all = STEPS.len() as i64;
        let open: Vec<_> =
            ended.iter().filter(|(_, state, steps)| (state.as_str(), *steps) != ("complete", all)).collect();
        assert!(open.is_empty(), "{open:?}");

        let tried = "select p.outcome::text, p.result from {schema}.attempt p join {schema}.task t on t.id = p.task_id
                     join {schema}.template m on m.id = t.template_id where m.name = 'crowd'";
        let tried: Vec<(String, Option<String>)> =
            sqlx::query_as(schema.sql(tried)).fetch_all(pool).await.expect("the attempts");
        let token = |result: &str| text(&serde_json::from_str(result).expect("JSON"));
        let results =
            tried.iter().filter(|(outcome, _)| outcome == "complete").filter_map(|(_, result)| result.as_deref());
        let completed: Vec<String> = results.map(token).collect();
        assert_eq!(completed.len(), ended.len() * STEPS.len(), "some step was not completed, or twice");
        let completed: BTreeSet<String> = completed.into_iter().collect();
        assert_eq!(completed, done, "completed steps and accepted reports differ");
        let others: Vec<&str> =
            tried.iter().map(|(outcome, _)| outcome.as_str()).filter(|outcome| *outcome != "complete").collect();
        let unanswered = self.unanswered();
        println!(
            "{} tasks, {} steps, {unanswered} requests unanswered, other attempts {others:?}",
            there.len(),
            done.len()
        );
    }
}

/// Submits tasks and waits for their ends, repeatedly until stopped.
async fn submit(seen: Arc<Seen>, mut client: FailoverClient, enough: watch::Receiver<bool>) {
    while !*enough.borrow() {
        let mut tasks = Vec::new();
        for _ in 0..TASKS {
            let key = seen.numbers.fetch_add(1, Ordering::Relaxed).to_string();
            let task = json!({"namespace": "tests", "name": "crowd", "version": "1.0.0", "idempotency_key": key});
            let (answer, repeated) = seen.certainly(&mut client, "POST", "tasks", Some(&task)).await;
            // An unanswered submission is repeated, and may be answered as a duplicate.
            assert!(answer.status == 201 || repeated && answer.status == 409, "{answer:?}");
            let task = text(&answer.json()["task_uuid"]);
            assert!(locked(&seen.tasks).insert(task.clone()), "{task} is the answer to two submissions");
            tasks.push(task);
        }
        for task in tasks {
            let path = format!("tasks/{task}?wait_ms={}", WAIT.as_millis());
            loop {
                let (answer, _) = seen.certainly(&mut client, "GET", &path, None).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                let stands = answer.json();
                if stands["status"] == "complete" {
                    break;
                }
                assert_eq!(stands["failed_steps"], 0, "{stands}");
            }
        }
    }
}

/// Claims steps and completes them, each with its token as the result, until stopped.
async fn work(seen: Arc<Seen>, mut client: FailoverClient, mut over: watch::Receiver<bool>) {
    let claim = json!({
        "worker": "crowd", "namespaces": ["tests"], "steps": STEPS.map(|(name, _)| name), "max_steps": AT_ONCE,
        "lease_ms": LEASE.as_millis() as u64, "wait_ms": WAIT.as_millis() as u64,
    });
    loop {
        let (answer, _) = tokio::select! {
            claimed = seen.certainly(&mut client, "POST", "workers/claim", Some(&claim)) => claimed,
            _ = over.wait_for(|over| *over) => return,
        };
        if answer.status == 204 {
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let claimed = answer.json();
        let report = |step: &Value| json!({"token": step["token"], "result": step["token"]});
        let reports: Vec<Value> = claimed["steps"].as_array().expect("steps").iter().map(report).collect();
        let body = json!({ "steps": reports });
        let (answer, _) = seen.certainly(&mut client, "POST", "workers/complete", Some(&body)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for reply in answer.json()["results"].as_array().expect("results") {
            if reply["ok"] == true {
                locked(&seen.done).insert(text(&reply["token"]));
                seen.completed.send_modify(|completed| *completed += 1);
            } else {
                assert_eq!(reply["reason"], "lost", "{reply}");
            }
        }
    }
}

impl Seen {
    /// Repeats a request until it is answered, and returns whether it was repeated.
    async fn certainly(
        &self,
        client: &mut FailoverClient,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (Answer, bool) {
        let mut repeated = false;
        let asked = async {
            loop {
                if let Some(answer) = client.ask(method, path, body).await {
                    return answer;
                }
                repeated = true;
                self.unanswered.fetch_add(1, Ordering::Relaxed);
                sleep(PAUSE).await;
            }
        };
        let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{method} {path} is never answered"));
        (answer, repeated)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no task panics while it holds the lock")
}

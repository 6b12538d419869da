//! Every workload on the model in memory, which is correct and fast: a failure here is one of the workload.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::Client;
use duroxide::providers::Provider;
use reveille_durable_memory::{MemoryProvider, Polling};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex};
use workloads::{
    Chain, Dispatchers, FanOut, Idle, Outcome, READY, Round, Stress, System, Timer, Waits, WakeClient, WakeWorker,
    Workload, play,
};

/// More than a line of any outcome here.
const PIPE_BYTES: usize = 64 * 1024;

const TWO: Dispatchers = Dispatchers::same(2);

fn provider() -> Arc<dyn Provider> {
    Arc::new(MemoryProvider::new(Polling::Long))
}

/// Prepares, measures and ends a round.
async fn measured(workload: Workload, system: System) -> Outcome {
    let round = Round::prepare(workload, system).await.expect("the model completes a warm-up");
    let outcome = round.measure().await.expect("there is something to measure");
    round.end().await;
    outcome
}

/// All orchestrations of a fan-out complete, and each of them is a sample.
#[tokio::test]
async fn fan_out_counts_what_completed() {
    let workload = Workload::FanOut(FanOut { concurrent: 4, ..FanOut::new(20, TWO) });
    let Outcome::FanOut(outcome) = measured(workload, System::new(provider())).await else {
        panic!("another's outcome")
    };
    assert_eq!((outcome.completed, outcome.failures, outcome.first_failure), (20, 0, None));
    assert_eq!((outcome.latencies.samples_ms.len(), outcome.reads), (20, None));
    assert!(outcome.per_second > 0.0 && outcome.latencies.p50_ms <= outcome.latencies.p99_ms);
}

/// A provider's own way to wait is used for every orchestration, and its result counts: here an error for all but the
/// warm-up, although they complete.
#[tokio::test]
async fn a_way_to_wait_decides_what_completed() {
    let (provider, waits) = (provider(), Arc::new(AtomicUsize::new(0)));
    let (client, counted) = (Arc::new(Client::new(Arc::clone(&provider))), Arc::clone(&waits));
    let wait = move |instance: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        let client = Arc::clone(&client);
        Box::pin(async move {
            let status = client.wait_for_orchestration(&instance, Duration::from_secs(10)).await?;
            if instance.starts_with("warm-up") { Ok(status) } else { Err("seen, and refused".into()) }
        }) as _
    };
    let workload = Workload::FanOut(FanOut { concurrent: 2, ..FanOut::new(6, TWO) });
    let Outcome::FanOut(outcome) = measured(workload, System::new(provider).waiting_by(Arc::new(wait))).await else {
        panic!("another's outcome")
    };
    assert_eq!((outcome.completed, outcome.failures), (0, 6));
    assert_eq!(outcome.first_failure.as_deref(), Some("seen, and refused"));
    assert_eq!(waits.load(Ordering::SeqCst), 8, "two warm-ups and six orchestrations");
}

/// A fan-out that is waited for by signals reads each status once after its signal and uses no other way to wait; all
/// other reads are of the verification. The provider's own way counts its calls: those of the two warm-ups are all.
#[tokio::test]
async fn signals_replace_the_other_ways_to_wait() {
    let (provider, waits) = (provider(), Arc::new(AtomicUsize::new(0)));
    let (client, counted) = (Arc::new(Client::new(Arc::clone(&provider))), Arc::clone(&waits));
    let wait = move |instance: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        let client = Arc::clone(&client);
        Box::pin(async move { Ok(client.wait_for_orchestration(&instance, Duration::from_secs(10)).await?) }) as _
    };
    let workload = Workload::FanOut(FanOut { concurrent: 2, waits: Waits::Signal, ..FanOut::new(6, TWO) });
    let Outcome::FanOut(outcome) = measured(workload, System::new(provider).waiting_by(Arc::new(wait))).await else {
        panic!("another's outcome")
    };
    assert_eq!((outcome.completed, outcome.failures, outcome.first_failure), (6, 0, None));
    let reads = outcome.reads.expect("reads are counted");
    assert_eq!((outcome.latencies.samples_ms.len(), reads.all - reads.verifying), (6, 6));
    assert_eq!(waits.load(Ordering::SeqCst), 2, "two warm-ups and no orchestration");
}

/// duroxide's stress test runs for its time and fails nothing.
#[tokio::test]
async fn stress_has_the_figures_of_the_stress_test() {
    let workload = Workload::Stress(Stress { seconds: 1, ..Stress::CONCURRENCY });
    let Outcome::Stress(outcome) = measured(workload, System::new(provider())).await else {
        panic!("another's outcome")
    };
    assert!(outcome.completed > 0 && outcome.seconds >= 1.0, "{outcome:?}");
    assert_eq!((outcome.launched, outcome.failed), (outcome.completed, 0));
}

/// The steps of a chain take no longer than the whole of it, and take some time.
#[tokio::test]
async fn a_chain_is_timed_by_its_activities() {
    let workload = Workload::Chain(Chain { steps: 11, dispatchers: TWO });
    let Outcome::Chain(outcome) = measured(workload, System::new(provider())).await else {
        panic!("another's outcome")
    };
    assert!(outcome.ms_per_step > 0.0 && outcome.ms_per_step * 10.0 <= outcome.total_ms, "{outcome:?}");
}

/// A chain of one step has no time between two steps: an error, not a number.
#[tokio::test]
async fn a_chain_of_one_step_is_refused() {
    let workload = Workload::Chain(Chain { steps: 1, dispatchers: TWO });
    let round = Round::prepare(workload, System::new(provider())).await.unwrap();
    assert!(round.measure().await.is_err());
    round.end().await;
}

/// No timer fires before it is due, in whichever order they are due.
#[tokio::test]
async fn timers_are_timed_from_when_they_were_due() {
    let workload = Workload::Timer(Timer { timers: 6, concurrent: 3, dispatchers: TWO });
    let Outcome::Timer(outcome) = measured(workload, System::new(provider())).await else {
        panic!("another's outcome")
    };
    assert_eq!((outcome.failures, outcome.lateness.samples_ms.len()), (0, 6));
    assert!(outcome.lateness.samples_ms.iter().all(|late| *late >= 0.0), "{outcome:?}");
}

/// An idle period has at least the length that is set.
#[tokio::test]
async fn idle_lasts_its_period() {
    let workload = Workload::Idle(Idle { period: Duration::from_millis(20), dispatchers: TWO });
    let Outcome::Idle(outcome) = measured(workload, System::new(provider())).await else { panic!("another's outcome") };
    assert!(outcome.seconds >= 0.02);
}

/// The worker runs what the client starts, and the timestamps of each sample are in order.
/// Both roles share a provider here instead of a database.
#[tokio::test]
async fn a_worker_wakes_for_its_client() {
    let provider = provider();
    let worker = Workload::WakeWorker(WakeWorker { dispatchers: TWO });
    let worker = Round::prepare(worker, System::new(Arc::clone(&provider))).await.unwrap();
    assert_eq!(worker.measure().await.unwrap(), Outcome::WakeWorker {});
    let client = Workload::WakeClient(WakeClient { samples: 3, pause: Duration::from_millis(1) });
    let Outcome::WakeClient(outcome) = measured(client, System::new(provider)).await else {
        panic!("another's outcome")
    };
    worker.end().await;
    assert_eq!((outcome.failures, outcome.first_failure), (0, None));
    let (turns, activities) = (&outcome.to_turn.samples_ms, &outcome.to_activity.samples_ms);
    let completions = &outcome.to_completion.samples_ms;
    assert_eq!((turns.len(), activities.len(), completions.len()), (3, 3, 3));
    for ((turn, activity), completion) in turns.iter().zip(activities).zip(completions) {
        assert!(0.0 <= *turn && turn <= activity && activity <= completion, "{turn} {activity} {completion}");
    }
}

/// A program that plays a round measures nothing before a command, and prints the outcome as one line.
/// Between the two commands the provider has the warm-up only.
#[tokio::test]
async fn a_played_round_waits_for_its_commands() {
    let provider = provider();
    let ((mut orders, heard), (said, says)) = (duplex(PIPE_BYTES), duplex(PIPE_BYTES));
    let workload = Workload::Chain(Chain { steps: 2, dispatchers: TWO });
    let playing = tokio::spawn(play(workload, System::new(Arc::clone(&provider)), BufReader::new(heard), says));
    let mut said = BufReader::new(said).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some(READY));
    let instances = Client::new(provider).list_all_instances().await.unwrap();
    assert!(instances.len() == 1 && instances[0].starts_with("warm-up"), "{instances:?}");

    orders.write_all(b"\n").await.unwrap();
    let outcome = said.next_line().await.unwrap().expect("an outcome");
    assert!(matches!(serde_json::from_str(&outcome).unwrap(), Outcome::Chain(_)), "{outcome}");
    assert!(!playing.is_finished(), "it ended without a command");

    orders.write_all(b"\n").await.unwrap();
    playing.await.unwrap().unwrap();
    assert_eq!(said.next_line().await.unwrap(), None);
}

/// If the parent process is gone, a round ends with an error and without measuring.
#[tokio::test]
async fn a_round_without_commands_is_not_played() {
    let (says, said) = duplex(PIPE_BYTES);
    let workload = Workload::Chain(Chain { steps: 2, dispatchers: TWO });
    let ended = play(workload, System::new(provider()), tokio::io::empty(), says).await;
    assert!(ended.is_err());
    let mut said = BufReader::new(said).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some(READY));
    assert_eq!(said.next_line().await.unwrap(), None);
}

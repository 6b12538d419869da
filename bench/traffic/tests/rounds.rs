//! Every workload on a queue in memory: what comes out is what went in. Time is tokio's and passes by itself, so that
//! seconds take none.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::BufReader;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use traffic::{
    Backlog, Broker, Crowd, Dwell, Latency, Note, Outcome, Parked, Queue, READY, Receiver, Result, Saturation, Sender,
    Throughput, Workload,
};

/// What a receive takes: so much goes through, and no more.
const TAKES: Duration = Duration::from_millis(1);

/// Messages by queue and group.
type Waiting = HashMap<(String, usize), VecDeque<Note>>;

#[derive(Clone, Default)]
struct Memory {
    waiting: Arc<Mutex<Waiting>>,
    arrived: Arc<Notify>,
    /// One message in so many is lost; none if zero.
    loses: usize,
    /// What a send takes.
    takes: Duration,
    sent: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

struct Sends(Memory);

struct Takes {
    memory: Memory,
    from: (String, usize),
    batch: usize,
    unended: bool,
}

impl Broker for Memory {
    type Sender = Sends;
    type Receiver = Takes;

    async fn open(&self, _: &Queue) -> Result<()> {
        Ok(())
    }

    async fn sender(&self, _: &Queue) -> Result<Sends> {
        Ok(Sends(self.clone()))
    }

    async fn receiver(&self, queue: &Queue, group: usize, _: usize) -> Result<Takes> {
        let from = (queue.name.clone(), group);
        Ok(Takes { memory: self.clone(), from, batch: queue.batch, unended: false })
    }

    async fn close(&self, _: &Queue) -> Result<()> {
        self.closed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Sender for Sends {
    async fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> Result<()> {
        assert!(partition < queue.partitions, "partition {partition} of {}", queue.partitions);
        if !self.0.takes.is_zero() {
            sleep(self.0.takes).await;
        }
        for note in notes {
            let number = self.0.sent.fetch_add(1, Ordering::Relaxed) + 1;
            if self.0.loses > 0 && number.is_multiple_of(self.0.loses) {
                continue;
            }
            let mut waiting = self.0.waiting.lock().expect("not poisoned");
            for group in 0..queue.groups {
                waiting.entry((queue.name.clone(), group)).or_default().push_back(*note);
            }
        }
        self.0.arrived.notify_waiters();
        Ok(())
    }
}

impl Receiver for Takes {
    async fn receive(&mut self) -> Result<Vec<Note>> {
        assert!(!self.unended, "what was received before was not ended");
        loop {
            let arrived = self.memory.arrived.notified();
            let taken: Vec<Note> = {
                let mut waiting = self.memory.waiting.lock().expect("not poisoned");
                let mine = waiting.entry(self.from.clone()).or_default();
                let amount = mine.len().min(self.batch);
                mine.drain(..amount).collect()
            };
            if !taken.is_empty() {
                sleep(TAKES).await;
                self.unended = true;
                return Ok(taken);
            }
            if timeout(Duration::from_secs(5), arrived).await.is_err() {
                return Ok(Vec::new());
            }
        }
    }

    async fn end(&mut self) -> Result<()> {
        self.unended = false;
        Ok(())
    }
}

/// Plays a workload with so many orders, and reads what was said after being ready.
async fn play(workload: Workload, memory: &Memory, orders: usize) -> Vec<Outcome> {
    let orders = "\n".repeat(orders);
    let mut said = Vec::new();
    traffic::play(workload, memory.clone(), BufReader::new(orders.as_bytes()), &mut said).await.expect("a round");
    let said = String::from_utf8(said).expect("text");
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some(READY));
    lines.map(|line| serde_json::from_str(line).expect("an outcome")).collect()
}

/// What goes through is what four receivers can take, and every group has everything.
/// Each takes 10 messages in a millisecond: 40 000 a second at most, and not much less.
#[tokio::test(start_paused = true)]
async fn throughput_is_what_receivers_can_take() {
    for groups in [1, 3] {
        let memory = Memory::default();
        let queue = Queue { groups, ..Queue::new("q", 100, 10) };
        let outcomes = play(Workload::Throughput(Throughput { queue, seconds: 2 }), &memory, 1).await;
        let [Outcome::Throughput(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert!((10_000.0..=40_000.0).contains(&done.per_second), "{done:?}");
        assert_eq!((done.each_second.len(), done.missing), (2, 0));
        assert!(done.messages as f64 >= 2.0 * done.per_second, "{done:?}");
        assert_eq!(memory.closed.load(Ordering::Relaxed), 1);
    }
}

/// Senders do not wait for receivers, and received messages are reported for both parts: while others send, and alone.
/// Four senders send 10 messages in a millisecond and two receivers take as many, undisturbed: 40 000 a second against
/// 20 000.
#[tokio::test(start_paused = true)]
async fn saturation_tells_both_rates() {
    let memory = Memory { takes: TAKES, ..Memory::default() };
    let queue = Queue { receivers: 2, ..Queue::new("q", 1, 10) };
    let outcomes = play(Workload::Saturation(Saturation { queue, seconds: 2 }), &memory, 1).await;
    let [Outcome::Saturation(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(done.sent_per_second > 1.5 * done.received_per_second, "{done:?}");
    let share = done.received_per_second / done.alone_per_second;
    assert!((0.8..1.25).contains(&share), "{done:?}");
    assert_eq!(done.missing, 0);
}

/// A queue that loses messages must not pass for a fast one: those that are missing are counted.
#[tokio::test(start_paused = true)]
async fn what_is_lost_is_missing() {
    let memory = Memory { loses: 100, ..Memory::default() };
    let outcomes =
        play(Workload::Throughput(Throughput { queue: Queue::new("q", 1, 1), seconds: 1 }), &memory, 1).await;
    let [Outcome::Throughput(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(done.missing > 0, "{done:?}");
}

/// Every sample arrives, beside nothing and beside a load, which is the share it was asked to be.
/// Four receivers take a batch of 10 in a millisecond each, so that half of it is at most 20 000 a second.
#[tokio::test(start_paused = true)]
async fn latencies_are_those_of_all_samples() {
    for beside in [None, Some(Queue::new("load", 10, 10))] {
        let share = if beside.is_some() { 0.5 } else { 0.0 };
        let latency =
            Latency { probe: Queue::probed("probe", 1), samples: 50, pause_ms: 20, beside: beside.clone(), share };
        let outcomes = play(Workload::Latency(latency), &Memory::default(), 1).await;
        let [Outcome::Latency(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert_eq!(done.latencies.count, 50);
        let expected = if beside.is_some() { 1_000.0..=22_000.0 } else { 0.0..=0.0 };
        assert!(expected.contains(&done.beside_per_second), "{done:?}");
    }
}

/// Everything that was sent below saturation is timed, and nothing is missing.
#[tokio::test(start_paused = true)]
async fn dwell_times_every_message() {
    let dwell = Dwell { queue: Queue::new("q", 1_000, 10), share: 0.5, seconds: 3 };
    let outcomes = play(Workload::Dwell(dwell), &Memory::default(), 1).await;
    let [Outcome::Dwell(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert_eq!(done.missing, 0);
    assert!(done.latencies.count as f64 >= 3.0 * done.per_second * 0.9, "{done:?}");
}

/// A crowd waits first and is served next, all of it, on one queue and on one each.
#[tokio::test(start_paused = true)]
async fn a_crowd_waits_and_is_served() {
    for queues in [1, 50] {
        let crowd = Crowd { name: "q".into(), receivers: 50, queues, seconds: 7 };
        let memory = Memory::default();
        let outcomes = play(Workload::Crowd(crowd), &memory, 2).await;
        let [Outcome::Crowd(waited), Outcome::Crowd(served)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert!(waited.seconds >= 7.0 && served.seconds < 1.0, "{waited:?} {served:?}");
        assert_eq!(memory.sent.load(Ordering::Relaxed), 50);
    }
}

/// Where many wait, each message is received once.
#[tokio::test(start_paused = true)]
async fn one_of_many_has_each_message() {
    let parked = Parked { queue: Queue::probed("q", 100), messages: 30, pause_ms: 10 };
    let outcomes = play(Workload::Parked(parked), &Memory::default(), 1).await;
    let [Outcome::Parked(done)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert_eq!(done.latencies.count, 30);
}

/// The backlog is the same after the measurement as before it, and the measured messages are counted.
/// The queue in memory counts what was sent; a second measurement of the same round finds as much.
#[tokio::test(start_paused = true)]
async fn a_backlog_stays_while_messages_pass() {
    let backlog = Backlog { queue: Queue::new("q", 10, 10), backlog: 2_000, messages: 500 };
    let memory = Memory::default();
    let outcomes = play(Workload::Backlog(backlog), &memory, 2).await;
    for outcome in &outcomes {
        let Outcome::Backlog(done) = outcome else { panic!("{outcomes:?}") };
        assert_eq!(done.sent, 500);
        assert!((500..540).contains(&done.received), "{done:?}");
    }
    assert_eq!(memory.sent.load(Ordering::Relaxed), 2_000 + 400 + 2 * 500);
}

//! The memory that requests under way may take together.
//!
//! A request takes far more than its body: what was parsed, what is written to the database, the answer. So each is charged what it
//! may take, before it takes it, and a charge is given back when its memory is. Three pools keep one kind of request from starving
//! another:
//!
//! - bodies that are **arriving**, by the bytes that have arrived. A client that announces a body and sends none holds nothing. When the
//!   pool is short, senders that are slower than [`SLOW`] are given up;
//! - **small** requests that are worked on, and **large** ones. Who finds no room waits for it ([`ROOM_WITHIN`]); a charge
//!   of work includes the body, so that no request at work waits for one that waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::error::ApiError;

/// Bytes of bodies that are arriving, at least: a dozen of the largest by default, or thousands of usual ones.
const ARRIVING_BYTES: usize = 128 << 20;
/// Bytes that small requests may take together: a thousand producers with batches of 20 kB each.
const SMALL_BYTES: usize = 128 << 20;
/// Bytes that large requests may take together, at least; also the most that one request may take.
const LARGE_BYTES: usize = 256 << 20;
/// What the largest body may take while it is worked on, as a multiple of its bytes; see [`COPIES`](crate::body). A little more.
const LARGEST_TIMES: usize = 8;
/// A request that takes at most so much is small.
const SMALL: usize = 1 << 20;

/// How long a request waits for room: less than clients wait for an answer, more than a burst lasts.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// A sender slower than so many bytes a second is given up when memory is short: modems are faster.
const SLOW: u64 = 8 * 1024;
/// Over which time that is measured; no sender is given up before it has passed.
const MEASURED_OVER: Duration = Duration::from_secs(2);

/// The memory for requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    arriving: Arc<Semaphore>,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// The most that one request may take.
    largest: usize,
    max_body_bytes: usize,
    senders: Mutex<Senders>,
}

/// Bodies that are arriving and hold memory: as many as connections at most.
#[derive(Debug, Default)]
struct Senders {
    next: u64,
    all: HashMap<u64, Arc<Pace>>,
}

/// How fast a body arrives. Times are in milliseconds after `began`.
#[derive(Debug)]
struct Pace {
    began: Instant,
    /// When the current measurement began, and the bytes since.
    since: AtomicU64,
    bytes: AtomicU64,
    /// When something last arrived.
    last: AtomicU64,
    held: AtomicU64,
    given_up: Notify,
}

impl Pace {
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Whether nothing has arrived for long, or too little since the measurement began.
    fn is_slow(&self) -> bool {
        let over = MEASURED_OVER.as_millis() as u64;
        let elapsed = |since: &AtomicU64| self.now().saturating_sub(since.load(Ordering::Relaxed));
        let measured = elapsed(&self.since);
        elapsed(&self.last) >= over || measured >= over && self.bytes.load(Ordering::Relaxed) * 1_000 < SLOW * measured
    }

    fn progress(&self, bytes: usize) {
        let now = self.now();
        if now.saturating_sub(self.since.load(Ordering::Relaxed)) > 2 * MEASURED_OVER.as_millis() as u64 {
            self.since.store(now, Ordering::Relaxed);
            self.bytes.store(0, Ordering::Relaxed);
        }
        self.last.store(now, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Memory {
    /// For bodies of up to so many bytes.
    pub(crate) fn new(max_body_bytes: usize) -> Memory {
        let largest = LARGE_BYTES.max(max_body_bytes * LARGEST_TIMES);
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes));
        Memory(Arc::new(Inner {
            arriving: pool(ARRIVING_BYTES.max(max_body_bytes * 4)),
            small: pool(SMALL_BYTES),
            large: pool(largest),
            largest,
            max_body_bytes,
            senders: Mutex::default(),
        }))
    }

    /// The largest body.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.0.max_body_bytes
    }

    /// A body that begins to arrive.
    pub(crate) fn arrival(&self) -> Arrival {
        let pace = Pace {
            began: Instant::now(),
            since: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last: AtomicU64::new(0),
            held: AtomicU64::new(0),
            given_up: Notify::new(),
        };
        Arrival { memory: self.clone(), pace: Arc::new(pace), id: None, permit: None }
    }

    /// Charges work that takes so many bytes.
    ///
    /// # Errors
    /// If that is more than one request may take, or if there is no room in time.
    pub(crate) async fn work(&self, bytes: usize) -> Result<Charge, ApiError> {
        if bytes > self.0.largest {
            let (needed, most) = (bytes >> 20, self.0.largest >> 20);
            let message =
                format!("the body would take about {needed} MB when it is parsed; at most {most} MB are allowed");
            return Err(ApiError::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let pool = if bytes <= SMALL { &self.0.small } else { &self.0.large };
        take(pool, bytes, ROOM_WITHIN).await.map(|permit| Charge(Some(permit)))
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.0.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up slow senders that hold so many bytes together.
    fn give_up_slow(&self, mut bytes: usize) {
        let mut senders = self.senders();
        let slow: Vec<u64> = senders.all.iter().filter(|(_, pace)| pace.is_slow()).map(|(id, _)| *id).collect();
        for id in slow {
            let Some(pace) = senders.all.remove(&id) else { continue };
            pace.given_up.notify_one();
            bytes = bytes.saturating_sub(pace.held.load(Ordering::Relaxed) as usize);
            if bytes == 0 {
                break;
            }
        }
    }
}

/// Takes bytes of a pool, or says that there are none in time.
async fn take(pool: &Arc<Semaphore>, bytes: usize, within: Duration) -> Result<OwnedSemaphorePermit, ApiError> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Ok(permit) = Arc::clone(pool).try_acquire_many_owned(bytes) {
        return Ok(permit);
    }
    match timeout(within, Arc::clone(pool).acquire_many_owned(bytes)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(ApiError::unavailable("too many large requests at once; try again with this connection")),
    }
}

/// A body that is arriving, and the memory it holds.
#[derive(Debug)]
pub(crate) struct Arrival {
    memory: Memory,
    pace: Arc<Pace>,
    /// Its entry among the senders, once it holds anything.
    id: Option<u64>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Arrival {
    /// So many bytes have arrived.
    pub(crate) fn progress(&self, bytes: usize) {
        self.pace.progress(bytes);
    }

    /// Charges so many bytes more, at the cost of slow senders if need be.
    ///
    /// # Errors
    /// If there is no room in time.
    ///
    /// # Cancel safety
    /// Dropping it charges nothing.
    pub(crate) async fn charge(&mut self, bytes: usize) -> Result<(), ApiError> {
        let (pool, began) = (&self.memory.0.arriving, Instant::now());
        let taken = loop {
            if pool.available_permits() < bytes {
                self.memory.give_up_slow(bytes);
            }
            // Who is not slow yet may be soon.
            match take(pool, bytes, MEASURED_OVER).await {
                Ok(taken) => break taken,
                Err(refusal) if began.elapsed() >= ROOM_WITHIN => return Err(refusal),
                Err(_) => {}
            }
        };
        match &mut self.permit {
            Some(permit) => permit.merge(taken),
            None => self.permit = Some(taken),
        }
        self.pace.held.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.id.is_none() {
            let mut senders = self.memory.senders();
            senders.next += 1;
            let id = senders.next;
            senders.all.insert(id, Arc::clone(&self.pace));
            self.id = Some(id);
        }
        Ok(())
    }

    /// It has arrived: it holds its memory until it is dropped, and is not given up for others any more.
    pub(crate) fn is_whole(&mut self) {
        if let Some(id) = self.id.take() {
            self.memory.senders().all.remove(&id);
        }
    }

    /// Resolves when it is given up for others.
    pub(crate) async fn given_up(&self) {
        self.pace.given_up.notified().await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.is_whole();
    }
}

/// Memory that a request has taken. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Charge(Option<OwnedSemaphorePermit>);

impl Charge {
    /// Gives back all but so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let Some(permit) = &mut self.0 else { return };
        let rest = permit.num_permits().saturating_sub(bytes);
        drop(permit.split(rest));
    }
}

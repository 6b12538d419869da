//! Bounds the memory of all requests in progress.
//!
//! A request takes far more than its body: the parsed value, the parameters of its statements, the response. So each is
//! charged its estimated memory before it takes it, until it frees it. Three pools keep one kind of request from
//! starving another:
//!
//! - bodies in **transfer**, by the bytes that have arrived. An announced body without bytes takes nothing. When the
//!   pool is short, transfers that are slower than [`SLOW`] are aborted;
//! - **small** requests in progress, and **large** ones. A request that does not fit waits for up to [`ROOM_WITHIN`].
//!   The charge of a request includes its body, so that no request in progress waits for another that waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::error::ApiError;

/// Bytes of bodies in transfer, at least: a dozen of the largest by default, or thousands of usual ones.
const ARRIVING_BYTES: usize = 128 << 20;
/// Bytes that small requests may take together: a thousand producers with batches of 20 kB each.
const SMALL_BYTES: usize = 128 << 20;
/// Bytes that large requests may take together, at least; also the most that one request may take.
const LARGE_BYTES: usize = 256 << 20;
/// Memory that the largest body may take in progress, as a multiple of its size: a little more than the copies that
/// `body.rs` counts.
const LARGEST_TIMES: usize = 8;
/// A request that takes at most so many bytes is small.
const SMALL: usize = 1 << 20;

/// How long a request waits for memory: less than clients wait for a response, more than a burst lasts.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// A transfer slower than so many bytes per second is aborted when memory is short: modems are faster.
const SLOW: u64 = 8 * 1024;
/// The time over which that is measured; no younger transfer is aborted.
const MEASURED_OVER: Duration = Duration::from_secs(2);

/// The memory pools. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    arriving: Arc<Semaphore>,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Bytes that one request may take at most.
    largest: usize,
    max_body_bytes: usize,
    transfers: Mutex<Transfers>,
}

/// Transfers with charged memory: at most one per connection.
#[derive(Debug, Default)]
struct Transfers {
    next_id: u64,
    by_id: HashMap<u64, Arc<TransferRate>>,
}

/// How fast a body arrives. Times are in milliseconds since `began`.
#[derive(Debug)]
struct TransferRate {
    began: Instant,
    /// Start of the current measurement, and the bytes since.
    since: AtomicU64,
    bytes: AtomicU64,
    /// When the last bytes arrived.
    last: AtomicU64,
    /// Bytes charged for the transfer.
    charged: AtomicU64,
    aborted: Notify,
}

impl TransferRate {
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Whether nothing has arrived for [`MEASURED_OVER`], or too little since the measurement began.
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
    /// Pools for bodies of at most `max_body_bytes`.
    pub(crate) fn new(max_body_bytes: usize) -> Memory {
        let largest = LARGE_BYTES.max(max_body_bytes * LARGEST_TIMES);
        let pool = |bytes: usize| Arc::new(Semaphore::new(bytes));
        Memory(Arc::new(Inner {
            arriving: pool(ARRIVING_BYTES.max(max_body_bytes * 4)),
            small: pool(SMALL_BYTES),
            large: pool(largest),
            largest,
            max_body_bytes,
            transfers: Mutex::default(),
        }))
    }

    /// The size limit of a body.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.0.max_body_bytes
    }

    /// Registers a body that begins to arrive.
    pub(crate) fn transfer(&self) -> Transfer {
        let rate = TransferRate {
            began: Instant::now(),
            since: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            aborted: Notify::new(),
        };
        Transfer { memory: self.clone(), rate: Arc::new(rate), id: None, permit: None }
    }

    /// Charges a request in progress.
    ///
    /// # Errors
    /// If `bytes` is more than one request may take, or not available within [`ROOM_WITHIN`].
    pub(crate) async fn work(&self, bytes: usize) -> Result<Charge, ApiError> {
        if bytes > self.0.largest {
            let (needed, max) = (bytes >> 20, self.0.largest >> 20);
            let message = format!("the parsed body would take about {needed} MB; at most {max} MB are allowed");
            return Err(ApiError::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let pool = if bytes <= SMALL { &self.0.small } else { &self.0.large };
        take(pool, bytes, ROOM_WITHIN).await.map(|permit| Charge(Some(permit)))
    }

    /// Aborts slow transfers until their charges sum up to `bytes`.
    fn abort_slow(&self, mut bytes: usize) {
        let mut transfers = self.0.transfers.lock();
        let slow: Vec<u64> = transfers.by_id.iter().filter(|(_, rate)| rate.is_slow()).map(|(id, _)| *id).collect();
        for id in slow {
            let Some(rate) = transfers.by_id.remove(&id) else { continue };
            rate.aborted.notify_one();
            bytes = bytes.saturating_sub(rate.charged.load(Ordering::Relaxed) as usize);
            if bytes == 0 {
                break;
            }
        }
    }
}

/// Takes bytes from a pool, or fails if they are not available in time.
async fn take(pool: &Arc<Semaphore>, bytes: usize, within: Duration) -> Result<OwnedSemaphorePermit, ApiError> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Ok(permit) = Arc::clone(pool).try_acquire_many_owned(bytes) {
        return Ok(permit);
    }
    match timeout(within, Arc::clone(pool).acquire_many_owned(bytes)).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(ApiError::unavailable("too many large requests at once; retry on this connection")),
    }
}

/// A body in transfer, and its charged memory.
#[derive(Debug)]
pub(crate) struct Transfer {
    memory: Memory,
    rate: Arc<TransferRate>,
    /// Its entry in [`Transfers`], once anything is charged.
    id: Option<u64>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Transfer {
    /// Records that bytes have arrived.
    pub(crate) fn progress(&self, bytes: usize) {
        self.rate.progress(bytes);
    }

    /// Charges more bytes, aborting slow transfers if needed.
    ///
    /// # Errors
    /// If the memory is not available within [`ROOM_WITHIN`].
    ///
    /// # Cancel safety
    /// Dropping the future charges nothing.
    pub(crate) async fn charge(&mut self, bytes: usize) -> Result<(), ApiError> {
        let (pool, began) = (&self.memory.0.arriving, Instant::now());
        let taken = loop {
            if pool.available_permits() < bytes {
                self.memory.abort_slow(bytes);
            }
            // A transfer that is not slow yet may become so.
            match take(pool, bytes, MEASURED_OVER).await {
                Ok(taken) => break taken,
                Err(error) if began.elapsed() >= ROOM_WITHIN => return Err(error),
                Err(_) => {}
            }
        };
        match &mut self.permit {
            Some(permit) => permit.merge(taken),
            None => self.permit = Some(taken),
        }
        self.rate.charged.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.id.is_none() {
            let mut transfers = self.memory.0.transfers.lock();
            transfers.next_id += 1;
            let id = transfers.next_id;
            transfers.by_id.insert(id, Arc::clone(&self.rate));
            self.id = Some(id);
        }
        Ok(())
    }

    /// The body has arrived: its memory stays charged until the transfer is dropped, and it is not aborted any more.
    pub(crate) fn complete(&mut self) {
        if let Some(id) = self.id.take() {
            self.memory.0.transfers.lock().by_id.remove(&id);
        }
    }

    /// Resolves when it is aborted.
    pub(crate) async fn aborted(&self) {
        self.rate.aborted.notified().await;
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.complete();
    }
}

/// Charged memory of a request. Dropping it returns the memory to its pool.
#[derive(Debug)]
pub struct Charge(Option<OwnedSemaphorePermit>);

impl Charge {
    /// Returns all but `bytes` to the pool.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let Some(permit) = &mut self.0 else { return };
        let rest = permit.num_permits().saturating_sub(bytes);
        drop(permit.split(rest));
    }
}

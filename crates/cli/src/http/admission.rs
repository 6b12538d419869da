//! Which connections are open, and which are closed when there are too many.
//!
//! A connection costs a file descriptor and memory, so the number is bounded: in total, and per peer address. A client
//! that opens connections and sends nothing must not lock out others, among them the probe of a supervisor. So at a
//! limit the connections that have been idle longest are closed, first those that never sent a request; a connection
//! with a request in progress is never closed for another. If none is idle, a further connection is accepted into a
//! small reserve: it gets health and metrics, and 503 for everything else.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::metrics;

/// Connections above the limit that get health and metrics only: a fraction of the limit, and the maximum. Enough for
/// several probes and scrapers, within the file descriptors that the limit leaves to other uses.
const RESERVED_PART: usize = 8;
const RESERVED_MAX: usize = 64;

/// A connection that has been idle for less is not closed: its request may be in transfer.
const GRACE: Duration = Duration::from_millis(250);

/// How many idle connections are closed at once. Finding them scans all connections; closing many makes that rare.
const CLOSED_AT_ONCE: usize = 64;

/// How often a reached limit is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In total.
    pub all: usize,
    /// Per peer address.
    pub per_peer: usize,
}

impl Limits {
    /// The size of the reserve.
    fn reserved(self) -> usize {
        (self.all / RESERVED_PART).clamp(1, RESERVED_MAX)
    }
}

/// The open connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Admission {
    limits: Limits,
    began: Instant,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    next: u64,
    open: HashMap<u64, Arc<Entry>>,
    per_peer: HashMap<IpAddr, usize>,
    reserved: usize,
    log: Log,
}

/// Events since the last log line.
#[derive(Default)]
struct Log {
    last: Option<Instant>,
    closed: usize,
    refused: usize,
}

/// A connection.
struct Entry {
    peer: IpAddr,
    /// Whether it is in the reserve.
    reserved: bool,
    /// Whether it has sent a request.
    asked: AtomicBool,
    /// Since when it has no request in progress, in milliseconds since `began`; [`BUSY`] if it has one.
    idle_since: AtomicU64,
    close: Notify,
}

const BUSY: u64 = u64::MAX;

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, began: Instant::now(), all: Arc::default() }
    }

    /// A slot for a connection of `peer`; `None` if the reserve is full, too.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<Slot> {
        let peer = peer.to_canonical();
        let mut all = self.all.lock();
        let is_full = |all: &All| all.open.len() - all.reserved >= self.limits.all;
        let peer_is_full = |all: &All| all.per_peer.get(&peer).is_some_and(|count| *count >= self.limits.per_peer);
        let limited = is_full(&all) || peer_is_full(&all);
        if limited {
            let of = (!is_full(&all)).then_some(peer);
            self.close_idle(&mut all, of);
        }
        let reserved = is_full(&all) || peer_is_full(&all);
        let slot = (!reserved || all.reserved < self.limits.reserved()).then(|| self.open(&mut all, peer, reserved));
        if limited {
            all.log.refused += usize::from(reserved);
            self.log(&mut all, peer);
        }
        if reserved {
            metrics::connection_refused();
        }
        slot
    }

    /// Closes the connections that have been idle longest, of one peer or of all.
    fn close_idle(&self, all: &mut All, of: Option<IpAddr>) {
        let before = self.now().saturating_sub(GRACE.as_millis() as u64);
        let candidate = |(id, entry): (&u64, &Arc<Entry>)| {
            let idle_since = entry.idle_since.load(Ordering::Acquire);
            let fits = idle_since <= before && of.is_none_or(|peer| entry.peer == peer);
            fits.then(|| (entry.asked.load(Ordering::Relaxed), idle_since, *id))
        };
        let mut idle: Vec<(bool, u64, u64)> = all.open.iter().filter_map(candidate).collect();
        idle.sort_unstable();
        for (_, _, id) in idle.into_iter().take(CLOSED_AT_ONCE) {
            if let Some(entry) = all.remove(id) {
                entry.close.notify_one();
                all.log.closed += 1;
                metrics::connection_closed();
            }
        }
    }

    fn open(&self, all: &mut All, peer: IpAddr, reserved: bool) -> Slot {
        all.next += 1;
        let (id, idle_since) = (all.next, AtomicU64::new(self.now()));
        let entry = Entry { peer, reserved, asked: AtomicBool::new(false), idle_since, close: Notify::new() };
        let entry = Arc::new(entry);
        all.open.insert(id, Arc::clone(&entry));
        match reserved {
            true => all.reserved += 1,
            false => *all.per_peer.entry(peer).or_default() += 1,
        }
        metrics::connections(1.0);
        Slot { admission: self.clone(), entry, id }
    }

    /// Logs that a limit was reached, at most every [`LOG_EVERY`].
    fn log(&self, all: &mut All, peer: IpAddr) {
        if all.log.last.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            return;
        }
        let Log { closed, refused, .. } =
            std::mem::replace(&mut all.log, Log { last: Some(Instant::now()), ..Log::default() });
        let open = all.open.len() - all.reserved;
        let Limits { all: limit, per_peer } = self.limits;
        let of_peer = all.per_peer.get(&peer).copied().unwrap_or_default();
        tracing::warn!(
            open,
            limit,
            %peer,
            of_peer,
            per_peer,
            closed,
            refused,
            "connection limit reached: closing idle connections, refusing new ones if none is idle"
        );
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl All {
    fn remove(&mut self, id: u64) -> Option<Arc<Entry>> {
        let entry = self.open.remove(&id)?;
        if entry.reserved {
            self.reserved -= 1;
        } else if let Some(count) = self.per_peer.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.per_peer.remove(&entry.peer);
            }
        }
        Some(entry)
    }
}

/// The slot of a connection, counted until it is dropped.
pub(super) struct Slot {
    admission: Admission,
    entry: Arc<Entry>,
    id: u64,
}

impl Slot {
    /// Whether it gets health and metrics only.
    pub(super) fn is_reserved(&self) -> bool {
        self.entry.reserved
    }

    /// Marks a request as in progress until the returned guard is dropped.
    pub(super) fn request(&self) -> Busy {
        self.entry.asked.store(true, Ordering::Relaxed);
        self.entry.idle_since.store(BUSY, Ordering::Release);
        Busy { admission: self.admission.clone(), entry: Arc::clone(&self.entry) }
    }

    /// Whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.entry.idle_since.load(Ordering::Acquire) == BUSY
    }

    /// Resolves when it has to be closed for another.
    pub(super) async fn closed(&self) {
        self.entry.close.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.admission.all.lock().remove(self.id));
        metrics::connections(-1.0);
    }
}

/// A request in progress, until its response has been passed to the connection.
pub(super) struct Busy {
    admission: Admission,
    entry: Arc<Entry>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.entry.idle_since.store(self.admission.now(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn limits(all: usize, per_peer: usize) -> Admission {
        Admission::new(Limits { all, per_peer })
    }

    async fn is_closed(slot: &Slot) -> bool {
        tokio::time::timeout(Duration::from_millis(1), slot.closed()).await.is_ok()
    }

    /// At the limit a connection that never sent a request is closed first, then the one that has been idle longest,
    /// never a busy one. Time is paused and advanced explicitly.
    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_for_another() {
        let admission = limits(3, 3);
        let open = || admission.admit(HERE).expect("a slot");
        let (kept, busy) = (open(), open());
        drop(kept.request());
        let in_progress = busy.request();
        tokio::time::advance(GRACE * 2).await;
        let silent = open();
        tokio::time::advance(GRACE * 2).await;
        let first = open();
        assert!(!first.is_reserved(), "a slot became free");
        assert!(is_closed(&silent).await && is_closed(&kept).await, "idle ones are closed together");
        assert!(!is_closed(&busy).await && busy.is_busy());
        drop(in_progress);
        assert!(!busy.is_busy());
    }

    /// If no connection is idle, a further one is accepted into the reserve; if that is full, none is.
    #[tokio::test(start_paused = true)]
    async fn a_busy_server_accepts_connections_into_the_reserve() {
        let admission = limits(16, 16);
        let busy: Vec<_> = (0..16).map(|_| admission.admit(HERE).expect("a slot")).collect();
        let _in_progress: Vec<_> = busy.iter().map(Slot::request).collect();
        let mut reserve = Vec::new();
        while let Some(slot) = admission.admit(HERE) {
            assert!(slot.is_reserved());
            reserve.push((slot.request(), slot));
        }
        assert_eq!(reserve.len(), 2);
        reserve.pop();
        assert!(admission.admit(HERE).is_some_and(|slot| slot.is_reserved()), "a slot of the reserve is free again");
        drop((_in_progress, busy));
        assert!(admission.admit(HERE).is_some_and(|slot| !slot.is_reserved()), "a slot is free again");
    }

    /// A peer at its own limit loses its own idle connections, and those of no other peer.
    #[tokio::test(start_paused = true)]
    async fn a_peer_at_its_limit_closes_its_own_idle_connections() {
        let admission = limits(10, 2);
        let (other, first, second) = (admission.admit(THERE), admission.admit(HERE), admission.admit(HERE));
        let (other, first, second) = (other.expect("a slot"), first.expect("a slot"), second.expect("a slot"));
        let _in_progress = second.request();
        tokio::time::advance(GRACE * 2).await;
        let third = admission.admit(HERE).expect("a slot");
        assert!(!third.is_reserved() && is_closed(&first).await && !is_closed(&other).await);
        let _in_progress = (_in_progress, third.request());
        assert!(admission.admit(HERE).is_some_and(|slot| slot.is_reserved()), "all of its connections are busy");
        assert!(admission.admit(THERE).is_some_and(|slot| !slot.is_reserved()));
    }
}

//! Which connections are open, and which one has to go when there are too many.
//!
//! A connection costs a file and some memory, so their number is bounded: all together, and those of one peer address. The
//! danger is a client that opens connections and says nothing: it would keep everybody else out, the prober that asks whether
//! the process lives among them. So at a limit the connections that have been idle longest are closed, first those that never
//! sent a request; a connection with a request under way is never closed for another. If none is idle, a further connection is
//! taken into a small reserve: health and metrics are answered there, and everything else with 503.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::metrics;

/// Connections beyond the limit that are answered health and metrics only, as a part of the limit, and at most: several probers and
/// scrapers at once, from the files that the limit leaves to others.
const RESERVED_PART: usize = 8;
const RESERVED_MAX: usize = 64;

/// A connection that has been idle for less is not closed for another: its request may be on the way.
const GRACE: Duration = Duration::from_millis(250);

/// How many idle connections are closed at once. To find them costs a look at all, which then serves as many newcomers.
const CLOSED_AT_ONCE: usize = 64;

/// How often the log repeats that a limit was reached.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All together.
    pub all: usize,
    /// Those of one peer address.
    pub per_peer: usize,
}

impl Limits {
    /// Places beyond the limit.
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

/// What the log has not said yet.
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
    /// Since when it has no request under way, in milliseconds from the start of all; [`BUSY`] if it has one.
    idle_since: AtomicU64,
    close: Notify,
}

const BUSY: u64 = u64::MAX;

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, began: Instant::now(), all: Arc::default() }
    }

    /// A place for a connection of `peer`; `None` if there is none, not even in the reserve.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<Slot> {
        let peer = peer.to_canonical();
        let mut all = self.all();
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

    /// Closes those that have been idle longest, of one peer or of all.
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

    /// Says that a limit was reached, now and then.
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
            "the limit of connections is reached: idle ones are closed, and without an idle one further ones are refused"
        );
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The place of a connection, counted while it lives.
pub(super) struct Slot {
    admission: Admission,
    entry: Arc<Entry>,
    id: u64,
}

impl Slot {
    /// Whether it is answered health and metrics only.
    pub(super) fn is_reserved(&self) -> bool {
        self.entry.reserved
    }

    /// A request is under way until what this returns is dropped.
    pub(super) fn request(&self) -> Busy {
        self.entry.asked.store(true, Ordering::Relaxed);
        self.entry.idle_since.store(BUSY, Ordering::Release);
        Busy { admission: self.admission.clone(), entry: Arc::clone(&self.entry) }
    }

    /// Whether a request is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.entry.idle_since.load(Ordering::Acquire) == BUSY
    }

    /// Resolves when it is to be closed for another.
    pub(super) async fn closed(&self) {
        self.entry.close.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.admission.all().remove(self.id));
        metrics::connections(-1.0);
    }
}

/// A request under way, until its answer is handed to the connection.
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

    /// At the limit the connection is closed that never asked; then the one that has been idle longest; never a busy one.
    /// Time is paused and moved by hand.
    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_is_closed_for_another() {
        let admission = limits(3, 3);
        let open = || admission.admit(HERE).expect("a place");
        let (kept, busy) = (open(), open());
        drop(kept.request());
        let under_way = busy.request();
        tokio::time::advance(GRACE * 2).await;
        let silent = open();
        tokio::time::advance(GRACE * 2).await;
        let first = open();
        assert!(!first.is_reserved(), "a place was made");
        assert!(is_closed(&silent).await && is_closed(&kept).await, "idle ones are closed together");
        assert!(!is_closed(&busy).await && busy.is_busy());
        drop(under_way);
        assert!(!busy.is_busy());
    }

    /// Without an idle connection a further one is taken into the reserve, and beyond that none.
    #[tokio::test(start_paused = true)]
    async fn a_busy_server_answers_health_in_the_reserve() {
        let admission = limits(16, 16);
        let busy: Vec<_> = (0..16).map(|_| admission.admit(HERE).expect("a place")).collect();
        let _under_way: Vec<_> = busy.iter().map(Slot::request).collect();
        let mut reserve = Vec::new();
        while let Some(slot) = admission.admit(HERE) {
            assert!(slot.is_reserved());
            reserve.push((slot.request(), slot));
        }
        assert_eq!(reserve.len(), 2);
        reserve.pop();
        assert!(admission.admit(HERE).is_some_and(|slot| slot.is_reserved()), "a place of the reserve is given back");
        drop((_under_way, busy));
        assert!(admission.admit(HERE).is_some_and(|slot| !slot.is_reserved()), "a place is given back");
    }

    /// A peer at its own limit loses its own idle connections, and those of no other peer.
    #[tokio::test(start_paused = true)]
    async fn a_peer_at_its_limit_closes_its_own_idle_connections() {
        let admission = limits(10, 2);
        let (other, first, second) = (admission.admit(THERE), admission.admit(HERE), admission.admit(HERE));
        let (other, first, second) = (other.expect("a place"), first.expect("a place"), second.expect("a place"));
        let _under_way = second.request();
        tokio::time::advance(GRACE * 2).await;
        let third = admission.admit(HERE).expect("a place");
        assert!(!third.is_reserved() && is_closed(&first).await && !is_closed(&other).await);
        let _under_way = (_under_way, third.request());
        assert!(admission.admit(HERE).is_some_and(|slot| slot.is_reserved()), "all of its places are busy");
        assert!(admission.admit(THERE).is_some_and(|slot| !slot.is_reserved()));
    }
}

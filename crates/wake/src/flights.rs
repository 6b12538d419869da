//! Sending writes together, and knowing what became of each.
//!
//! There is no artificial delay: idle means send now, busy means collect until the flight returns. A caller that goes away
//! must not tear a write in the middle, so flights run in tasks of their own; a member whose row is locked, or that was
//! refused together with others, travels alone, so that nobody waits or fails for it. How one flight learns its outcome is in
//! [`plane`](crate::plane).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::Database;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::boarding::{Boarding, LaneId, Load};
use crate::error::{Error, Result, broken};
use crate::flight::Flight;
use crate::hub::Hub;
use crate::log::Log;
use crate::metrics::FlightMetrics;
use crate::options::LONGEST;
use crate::plane::{Manner, Plane};
use crate::underway::{Passage, Underway};

/// How flights of one kind travel.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// Members per flight at most.
    pub max_members: usize,
    /// Bytes of members per flight at most, as [`Flight::bytes`] counts them.
    pub max_bytes: usize,
    /// Members that may wait for their outcome; further ones wait to be let in.
    pub max_waiting: usize,
    /// Flights in the air at a time, beside members that travel alone.
    pub lanes: usize,
    /// How long after boarding a member is told that the database is unavailable, or its outcome unknown. An attempt under way
    /// by then is waited for, up to `attempt_timeout`; and if an outcome cannot be learnt, all members of its flight are told when
    /// the first one's time is up.
    pub give_up_after: Duration,
    /// How long one attempt may take before its connection counts as dead.
    pub attempt_timeout: Duration,
}

impl Default for FlightOptions {
    fn default() -> Self {
        FlightOptions {
            max_members: 500,
            max_bytes: 8 << 20,
            max_waiting: 10_000,
            lanes: 1,
            give_up_after: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(30),
        }
    }
}

/// How long a lane that finds nobody keeps its connection for the next: getting one costs the pool a round trip and a task switch.
const LINGER: Duration = Duration::from_millis(20);

/// Sends one kind of write. Cheap to clone; made by [`Wake::flights`](crate::Wake::flights).
pub struct Flights<F: Flight> {
    inner: Arc<Inner<F>>,
}

impl<F: Flight> Clone for Flights<F> {
    fn clone(&self) -> Self {
        Flights { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<F: Flight> {
    pub(crate) name: Arc<str>,
    pub(crate) flight: F,
    pub(crate) db: Database,
    pub(crate) hub: Arc<Hub>,
    pub(crate) options: FlightOptions,
    pub(crate) log: Log,
    pub(crate) metrics: FlightMetrics,
    runtime: Handle,
    room: Arc<Semaphore>,
    boarding: Mutex<Boarding<Passenger<F>>>,
    /// Members whose outcome is not known yet.
    underway: Underway,
}

/// A member on its way to its outcome.
pub(crate) struct Passenger<F: Flight> {
    pub(crate) member: F::Member,
    bytes: usize,
    /// When it must know its outcome.
    pub(crate) deadline: Instant,
    reply: oneshot::Sender<Result<F::Outcome>>,
    _underway: Passage,
    _room: OwnedSemaphorePermit,
}

impl<F: Flight> Passenger<F> {
    pub(crate) fn tell(self, outcome: Result<F::Outcome>) {
        drop(self.reply.send(outcome));
    }
}

impl<F: Flight> Flights<F> {
    pub(crate) fn start(name: &str, flight: F, db: &Database, hub: &Arc<Hub>, options: FlightOptions) -> Self {
        Flights {
            inner: Arc::new(Inner {
                name: name.into(),
                flight,
                db: db.clone(),
                hub: hub.clone(),
                log: Log::new(db, &hub.schema),
                metrics: FlightMetrics::new(name),
                runtime: Handle::current(),
                room: Arc::new(Semaphore::new(options.max_waiting.clamp(1, Semaphore::MAX_PERMITS))),
                boarding: Mutex::new(Boarding::new(options.lanes, options.max_members, options.max_bytes, |p| p.bytes)),
                underway: Underway::new(),
                options,
            }),
        }
    }

    /// Sends a write with the next flight and answers what became of it.
    ///
    /// Waits to be let in while `max_waiting` others are underway.
    ///
    /// # Errors
    /// [`Error::Refused`] if the database refuses this member; [`Error::Unavailable`] if it could not be sent in time and
    /// has not happened; [`Error::Unknown`] if it was sent and the outcome could not be learnt in time; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once let in, dropping the future changes nothing: the write happens, and nobody hears of it.
    pub async fn submit(&self, member: F::Member) -> Result<F::Outcome> {
        let inner = &self.inner;
        let room = inner.room.clone().acquire_owned().await.map_err(|_| inner.closed())?;
        let (reply, outcome) = oneshot::channel();
        let deadline = Instant::now() + inner.options.give_up_after.min(LONGEST);
        let (bytes, underway) = (inner.flight.bytes(&member), inner.underway.begin());
        inner.board(Passenger { member, bytes, deadline, reply, _underway: underway, _room: room })?;
        outcome.await.unwrap_or_else(|_| Err(inner.panicked()))
    }

    /// Refuses new members, and returns when the outcome of every other is known.
    pub async fn close(&self) {
        self.inner.boarding().close();
        self.inner.room.close();
        self.inner.underway.ended().await;
    }
}

impl<F: Flight> Inner<F> {
    fn boarding(&self) -> MutexGuard<'_, Boarding<Passenger<F>>> {
        self.boarding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Error {
        Error::Closed { what: self.name.clone() }
    }

    fn panicked(&self) -> Error {
        let source = Arc::new(broken(io::ErrorKind::Other, "the flight panicked"));
        Error::Unknown { what: self.name.clone(), source }
    }

    fn board(self: &Arc<Self>, passenger: Passenger<F>) -> Result<()> {
        let opened = self.boarding().board(passenger).map_err(|_| self.closed())?;
        self.run_lane(opened);
        Ok(())
    }

    fn run_lane(self: &Arc<Self>, lane: Option<LaneId>) {
        if let Some(id) = lane {
            self.runtime.spawn(Lane { inner: self.clone(), id, state: LaneState::New }.run());
        }
    }

    /// Whether a connection may be kept for a moment without keeping anybody from one.
    fn pool_has_room(&self) -> bool {
        let pool = self.db.pool();
        pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
    }

    /// Sends members each alone, without delaying the next flight; `patient`: waiting for its row. A member that is overtaken by
    /// a later one of the same key had no promise of order: both were under way at once.
    pub(crate) fn send_alone(self: &Arc<Self>, passengers: Vec<Passenger<F>>, patient: bool) {
        self.metrics.lone.increment(passengers.len() as u64);
        for passenger in passengers {
            let me = self.clone();
            self.runtime.spawn(async move {
                let turns = if patient { &me.hub.patient } else { &me.hub.alone };
                let _turn = turns.acquire().await;
                let mut plane = Plane::new(me.clone());
                let mut load = vec![passenger];
                while !load.is_empty() {
                    load = plane.fly(load, if patient { Manner::Patient } else { Manner::Alone }).await;
                }
                plane.park().await;
            });
        }
    }
}

/// Flies as long as anybody waits, and lingers a moment longer.
struct Lane<F: Flight> {
    inner: Arc<Inner<F>>,
    id: LaneId,
    state: LaneState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneState {
    /// Never polled: its runtime takes no more tasks.
    New,
    Running,
    Ended,
}

impl<F: Flight> Lane<F> {
    async fn run(mut self) {
        self.state = LaneState::Running;
        let mut plane = Plane::new(self.inner.clone());
        loop {
            // Whoever was woken together with the first member comes along.
            tokio::task::yield_now().await;
            let load = self.inner.boarding().load(self.id);
            match load {
                Load::Members(mut load) => {
                    load.sort_by_cached_key(|passenger| self.inner.flight.key(&passenger.member));
                    let again = plane.fly(load, Manner::Together).await;
                    self.inner.boarding().board_again(again);
                }
                Load::Nobody(called) => {
                    if !self.inner.pool_has_room() {
                        plane.park().await;
                    }
                    if timeout(LINGER, called).await.is_err() && self.inner.boarding().end_lingering(self.id) {
                        self.state = LaneState::Ended;
                        return plane.park().await;
                    }
                }
            }
        }
    }
}

impl<F: Flight> Drop for Lane<F> {
    fn drop(&mut self) {
        if self.state == LaneState::Ended || self.inner.boarding().end_lingering(self.id) {
            return;
        }
        let reopened = self.inner.boarding().lane_ended();
        if self.state == LaneState::Running && std::thread::panicking() {
            // The product's code panicked, and the next member must find a lane.
            self.inner.run_lane(reopened);
        } else if reopened.is_some() {
            // The runtime is going away: there are no lanes any more.
            let abandoned = self.inner.boarding().abandon();
            drop(abandoned);
        }
    }
}

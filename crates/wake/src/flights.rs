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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::boarding::Boarding;
use crate::error::{Error, Result, broken};
use crate::flight::Flight;
use crate::hub::Hub;
use crate::log::Log;
use crate::metrics;
use crate::plane::Plane;

/// How flights of one kind travel.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// Members per flight at most.
    pub max_members: usize,
    /// Members that may wait for their outcome; further ones wait to be let in.
    pub max_waiting: usize,
    /// Flights in the air at a time, beside members that travel alone.
    pub lanes: usize,
    /// How long a flight is tried before its members are told that the outcome is unknown or the database unavailable.
    pub give_up_after: Duration,
    /// How long one attempt may take before its connection counts as dead.
    pub attempt_timeout: Duration,
}

impl Default for FlightOptions {
    fn default() -> Self {
        FlightOptions {
            max_members: 500,
            max_waiting: 10_000,
            lanes: 1,
            give_up_after: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(30),
        }
    }
}

/// Members that may travel alone at a time: each holds a connection, perhaps until somebody's transaction ends.
const ALONE_AT_A_TIME: usize = 4;
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
    runtime: Handle,
    room: Arc<Semaphore>,
    alone: Semaphore,
    boarding: Mutex<Boarding<Passenger<F>>>,
    /// Members whose outcome is not known yet.
    underway: Arc<watch::Sender<usize>>,
}

/// A member on its way to its outcome.
pub(crate) struct Passenger<F: Flight> {
    pub(crate) member: F::Member,
    reply: oneshot::Sender<Result<F::Outcome>>,
    _underway: Underway,
    _room: OwnedSemaphorePermit,
}

/// Counts a member until it is dropped.
struct Underway(Arc<watch::Sender<usize>>);

impl Underway {
    fn new(count: &Arc<watch::Sender<usize>>) -> Underway {
        count.send_modify(|members| *members += 1);
        Underway(count.clone())
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.send_modify(|members| *members -= 1);
    }
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
                runtime: Handle::current(),
                room: Arc::new(Semaphore::new(options.max_waiting.min(Semaphore::MAX_PERMITS))),
                alone: Semaphore::new(ALONE_AT_A_TIME),
                boarding: Mutex::new(Boarding::new(options.lanes, options.max_members)),
                underway: Arc::new(watch::Sender::new(0)),
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
        inner.board(Passenger { member, reply, _underway: Underway::new(&inner.underway), _room: room })?;
        outcome.await.unwrap_or_else(|_| Err(inner.panicked()))
    }

    /// What it sends.
    pub fn sends(&self) -> &F {
        &self.inner.flight
    }

    /// Refuses new members, and returns when the outcome of every other is known.
    pub async fn close(&self) {
        self.inner.boarding().close();
        self.inner.room.close();
        let mut underway = self.inner.underway.subscribe();
        // It fails only if the sender is gone, which lives in `inner`.
        let _ = underway.wait_for(|members| *members == 0).await;
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
        let lane_opened = self.boarding().board(passenger).map_err(|_| self.closed())?;
        if lane_opened {
            self.runtime.spawn(Lane(self.clone()).run());
        }
        Ok(())
    }

    /// Sends members alone and patiently, one after the other, without delaying the next flight.
    pub(crate) fn send_alone(self: &Arc<Self>, passengers: Vec<Passenger<F>>) {
        ::metrics::counter!(metrics::LONE_MEMBERS, "flight" => self.name.to_string())
            .increment(passengers.len() as u64);
        let me = self.clone();
        self.runtime.spawn(async move {
            let _turn = me.alone.acquire().await;
            let mut plane = Plane::new(me.clone());
            for passenger in passengers {
                plane.fly(vec![passenger], true).await;
            }
            plane.park().await;
        });
    }
}

/// Flies as long as anybody waits. However it ends, the next member finds a lane.
struct Lane<F: Flight>(Arc<Inner<F>>);

impl<F: Flight> Lane<F> {
    async fn run(self) {
        let mut plane = Plane::new(self.0.clone());
        loop {
            let mut load = self.0.boarding().load();
            if load.is_empty() {
                return plane.park().await;
            }
            load.sort_by_cached_key(|passenger| self.0.flight.key(&passenger.member));
            plane.fly(load, false).await;
        }
    }
}

impl<F: Flight> Drop for Lane<F> {
    fn drop(&mut self) {
        if self.0.boarding().lane_ended() {
            self.0.runtime.spawn(Lane(self.0.clone()).run());
        }
    }
}

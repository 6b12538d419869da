//! One flight, from its first attempt to its known outcome.
//!
//! A connection that breaks around the commit leaves the outcome unknown. The danger is to guess: sending again may do it
//! twice, not sending again may lose it. So every attempt writes its id with its outcomes in its own transaction, and when
//! the answer is lost the id is *settled* ([`Log::settle`](crate::log::Log::settle)): either it is there, with the
//! outcomes, or its place is taken, after which that attempt can never commit. Then sending again is safe. A token presented
//! by a *second* call is still an error, because that call is another flight.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pg::Session;
use pg::retry::Backoff;
use tokio::time::{Instant, sleep, timeout};

use crate::channel::Ring;
use crate::error::{Error, broken};
use crate::flight::{Boarded, Flight, Landed};
use crate::flights::{Inner, Passenger};
use crate::hub::Announcement;
use crate::log::Entry;
use crate::metrics;
use crate::pace::OVERDUE;

/// The pause between attempts grows from this to that.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// Why a flight has no outcome.
enum Lost {
    /// The database refused it, and would again.
    Refused(pg::Error),
    /// It could not be sent in time; it has not happened.
    Unavailable(pg::Error),
    /// It was sent, and the answer could not be had in time.
    Unknown(pg::Error),
}

/// Makes flights one after another, on one connection while they follow each other closely.
pub(crate) struct Plane<F: Flight> {
    inner: Arc<Inner<F>>,
    session: Option<Session>,
}

impl<F: Flight> Plane<F> {
    pub(crate) fn new(inner: Arc<Inner<F>>) -> Self {
        Plane { inner, session: None }
    }

    /// Gives the connection back.
    pub(crate) async fn park(&mut self) {
        if let Some(session) = self.session.take() {
            // Nothing is under way on it: whatever this says, nothing is lost.
            let _ = session.finish().await;
        }
    }

    /// Sends the members together and tells each what became of it.
    pub(crate) async fn fly(&mut self, load: Vec<Passenger<F>>, patient: bool) {
        let inner = self.inner.clone();
        ::metrics::histogram!(metrics::FLIGHT_MEMBERS, "flight" => inner.name.to_string()).record(load.len() as f64);
        let possible: Vec<Ring> = load.iter().flat_map(|p| inner.flight.rings(&p.member, None)).collect();
        let announcement = inner.hub.announce(&possible);
        let landed = self.until_known(&load, patient, &announcement).await;
        let outcome = match &landed {
            Ok(_) => "landed",
            Err(Lost::Refused(_) | Lost::Unavailable(_)) => "failed",
            Err(Lost::Unknown(_)) => "unknown",
        };
        ::metrics::counter!(metrics::FLIGHTS, "flight" => inner.name.to_string(), "outcome" => outcome).increment(1);
        let what = || inner.name.clone();
        match landed {
            Ok(landed) => self.disembark(load, patient, landed, announcement),
            Err(Lost::Refused(_)) if load.len() > 1 => inner.send_alone(load),
            Err(Lost::Refused(error)) => {
                let source = Arc::new(error);
                tell_all(load, || Error::Refused { what: what(), source: source.clone() });
            }
            Err(Lost::Unavailable(error)) => {
                let source = Arc::new(error);
                tell_all(load, || Error::Unavailable { what: what(), source: source.clone() });
            }
            Err(Lost::Unknown(error)) => {
                // It may have happened: whoever waits for it must look.
                inner.hub.announced(announcement, &possible, None);
                let source = Arc::new(error);
                tell_all(load, || Error::Unknown { what: what(), source: source.clone() });
            }
        }
    }

    fn disembark(&self, load: Vec<Passenger<F>>, patient: bool, landed: Landed, announcement: Announcement) {
        let inner = &self.inner;
        let (mut rings, mut told, mut locked) = (Vec::new(), Vec::new(), Vec::new());
        for (passenger, outcome) in load.into_iter().zip(landed.outcomes) {
            match outcome {
                Some(text) => {
                    let outcome = inner.flight.outcome(&passenger.member, &text);
                    rings.extend(inner.flight.rings(&passenger.member, Some(&outcome)));
                    told.push((passenger, outcome));
                }
                None => locked.push(passenger),
            }
        }
        // Rung before the members hear of it, so that who acts on the outcome finds the waiters awake.
        inner.hub.announced(announcement, &rings, landed.backend);
        for (passenger, outcome) in told {
            passenger.tell(Ok(outcome));
        }
        if locked.is_empty() {
            return;
        }
        if patient {
            let source = Arc::new(broken(io::ErrorKind::WouldBlock, "a patient statement must wait for its row"));
            tell_all(locked, || Error::Unavailable { what: inner.name.clone(), source: source.clone() });
        } else {
            inner.send_alone(locked);
        }
    }

    /// Attempts the flight until its outcome is known, or time is up.
    async fn until_known(
        &mut self,
        load: &[Passenger<F>],
        patient: bool,
        announcement: &Announcement,
    ) -> Result<Landed, Lost> {
        let inner = self.inner.clone();
        let give_up_at = Instant::now() + inner.options.give_up_after;
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        let mut may_have_happened = false;
        loop {
            let entry = F::KEPT.then(|| inner.log.open());
            let boarded = Boarded {
                members: load.iter().map(|passenger| &passenger.member).collect(),
                patient,
                id: entry.as_ref().map(|entry| entry.id),
                channels: &announcement.channels,
                payloads: &announcement.payloads,
            };
            let error = match self.attempt(&boarded, announcement).await {
                Ok(landed) => return Ok(landed),
                Err(error) => error,
            };
            tracing::debug!(flight = &*inner.name, %error, "an attempt failed");
            match entry.filter(|_| error.is_ambiguous()) {
                None => may_have_happened |= error.is_ambiguous(),
                Some(entry) => match self.settle(&entry, &mut backoff, give_up_at).await {
                    Ok(Some(outcomes)) => return Ok(Landed { outcomes, backend: None }),
                    Ok(None) => {}
                    Err(unanswered) => return Err(Lost::Unknown(unanswered)),
                },
            }
            if !error.is_transient() {
                return Err(Lost::Refused(error));
            }
            if Instant::now() >= give_up_at {
                return Err(if may_have_happened { Lost::Unknown(error) } else { Lost::Unavailable(error) });
            }
            sleep(backoff.pause()).await;
        }
    }

    /// Learns what became of an attempt whose answer was lost; `None`: it has not happened and never will.
    async fn settle(
        &self,
        entry: &Entry,
        backoff: &mut Backoff,
        give_up_at: Instant,
    ) -> pg::Result<Option<Vec<Option<String>>>> {
        loop {
            match self.inner.log.settle(&self.inner.db, entry.id).await {
                Err(error) if Instant::now() < give_up_at => {
                    tracing::debug!(flight = &*self.inner.name, %error, "an outcome could not be asked for");
                    sleep(backoff.pause()).await;
                }
                settled => return settled,
            }
        }
    }

    async fn attempt(&mut self, boarded: &Boarded<'_, F::Member>, announcement: &Announcement) -> pg::Result<Landed> {
        let inner = self.inner.clone();
        let mut session = match self.session.take() {
            Some(session) => session,
            None => inner.db.session().await?,
        };
        let landed = {
            let flight = timeout(inner.options.attempt_timeout, inner.flight.fly(&mut session, boarded));
            let mut flight = pin!(flight);
            loop {
                tokio::select! {
                    biased;
                    landed = &mut flight => break landed,
                    () = sleep(OVERDUE) => inner.hub.announce_again(announcement),
                }
            }
        };
        let landed = landed.unwrap_or_else(|_| Err(broken(io::ErrorKind::TimedOut, "no answer in time")));
        match &landed {
            // Through a pooler the session is a transaction, and this its commit.
            Ok(_) if inner.db.has_pooler() => session.finish().await?,
            Ok(_) => self.session = Some(session),
            // What the server itself said leaves the connection in order.
            Err(error) if !error.is_ambiguous() && !inner.db.has_pooler() => session.finish().await?,
            Err(_) => drop(session),
        }
        landed
    }
}

fn tell_all<F: Flight>(load: Vec<Passenger<F>>, error: impl Fn() -> Error) {
    for passenger in load {
        passenger.tell(Err(error()));
    }
}

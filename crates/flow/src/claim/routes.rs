//! Which namespaces are waited for, and which are asked now and then: as each is set, and from the moment that changes.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use reveille_wake::Claimed;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::claim::unanswered::rotate_randomly;
use crate::claim::{Args, ClaimedStep, Key};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::namespace::{Known, Mode, Provider};
use crate::provider::deliver::Queued;

/// How long a broker is asked before the next queue: one that hangs does not hold back what lies elsewhere. What is in the database is there as soon as anything is, and a look
/// that is given up gives back what it took.
const TURN: Duration = Duration::from_millis(250);

/// How the namespaces of one claim are claimed.
#[derive(Debug, PartialEq, Eq)]
struct Routes {
    all: Vec<Route>,
    /// How often those are asked that are not waited for.
    pause: Duration,
}

/// Namespaces that are claimed alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    /// Whoever waits for these is woken; else they are asked.
    waited: bool,
    provider: Provider,
    namespaces: Vec<String>,
}

impl Routes {
    /// A namespace that nobody knows yet is waited for; one that is only listened to is left out.
    fn of(known: &Known, namespaces: &[String]) -> Routes {
        let mut ways = Routes { all: Vec::new(), pause: Duration::MAX };
        for name in namespaces {
            let settings = known.get(name).map(|namespace| &namespace.settings);
            let provider = settings.map_or(Provider::Table, |settings| settings.provider);
            let waited = match settings {
                Some(settings) if settings.mode == Mode::Polling => {
                    ways.pause = ways.pause.min(Duration::from_millis(settings.poll_ms.into()));
                    false
                }
                Some(settings) if settings.mode == Mode::Shadow => continue,
                _ => true,
            };
            match ways.all.iter_mut().find(|way| way.waited == waited && way.provider == provider) {
                Some(way) => way.namespaces.push(name.clone()),
                None => ways.all.push(Route { waited, provider, namespaces: vec![name.clone()] }),
            }
        }
        ways
    }
}

impl Route {
    fn key(&self, key: &Key) -> Key {
        Key { namespaces: self.namespaces.clone(), ..key.clone() }
    }
}

impl Flow {
    /// Claims for a key as its namespaces are set, until the deadline; `None` does not wait.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was claimed for it.
    pub(crate) async fn claim_by_mode(
        &self,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let mut known = self.inner.known_namespaces().await?;
        loop {
            let ways = Routes::of(&known.borrow_and_update(), &key.namespaces);
            let other = async {
                while known.changed().await.is_ok() {
                    if Routes::of(&known.borrow_and_update(), &key.namespaces) != ways {
                        return;
                    }
                }
                std::future::pending().await
            };
            tokio::select! {
                claimed = self.claim_by(&ways, key, want, args, deadline) => return claimed,
                () = other => {}
            }
        }
    }

    /// What is there is taken through one way, each in its turn: taken through several at once, all but the first would go back, and nobody knows whose would be first. Only who finds nothing waits through all.
    async fn claim_by(
        &self,
        ways: &Routes,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let (waited, asked): (Vec<Route>, Vec<Route>) = ways.all.iter().cloned().partition(|way| way.waited);
        // Who has but one thing to wait for looks by waiting, and does not if it is known that nothing is there.
        if deadline.is_none() || !asked.is_empty() || waited.len() > 1 {
            let claimed = self.claim_in_turn(&ways.all, key, want, args, deadline).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
        }
        let Some(deadline) = deadline else { return Ok(Vec::new()) };
        let waits = waited.iter().map(|way| self.claim_waiting(way, key, want, args, deadline).boxed());
        let waits: Vec<_> = waits.collect();
        let waiting = async {
            if waits.is_empty() {
                sleep_until(deadline).await;
                return Ok(Vec::new());
            }
            // Those that are not first give back what they have.
            select_all(waits).await.0
        };
        let asking = async {
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if asked.is_empty() || ways.pause > left {
                    // Those that are waited for may still come; that wait ends with the deadline.
                    return std::future::pending().await;
                }
                sleep(ways.pause).await;
                let claimed = self.claim_in_turn(&asked, key, want, args, Some(deadline)).await?;
                if !claimed.is_empty() {
                    return Ok(claimed);
                }
            }
        };
        tokio::select! {
            claimed = waiting => claimed,
            claimed = asking => claimed,
        }
    }

    /// Claims what is there now through the first way that has something, beginning anywhere.
    async fn claim_in_turn(
        &self,
        ways: &[Route],
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let mut ways: Vec<&Route> = ways.iter().collect();
        rotate_randomly(&mut ways);
        for way in ways {
            let claim = self.claim_now(way, key, want, args);
            let waits = deadline.filter(|_| way.waited);
            let claimed = if let Some(deadline) = waits {
                let turn = Instant::now() + TURN;
                let until = if way.provider == Provider::Rabbitmq { turn } else { turn.max(deadline) };
                match timeout_at(until, claim).await {
                    Ok(Ok(claimed)) => claimed,
                    // It is waited for afterwards, beside the others, and that wait bears what passes.
                    Err(_) | Ok(Err(Error::Wake(reveille_wake::Error::Unavailable { .. }))) => continue,
                    Ok(Err(error)) => return Err(error),
                }
            } else {
                claim.await?
            };
            // What is here is not to be lost while another is asked.
            if !claimed.is_empty() {
                self.count(waits.is_some(), &claimed);
                return Ok(claimed);
            }
        }
        Ok(Vec::new())
    }

    async fn claim_waiting(
        &self,
        way: &Route,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Instant,
    ) -> Result<Vec<ClaimedStep>> {
        let (inner, key) = (&self.inner, way.key(key));
        let claimed = if way.provider == Provider::Table {
            let _waiter = inner.waiting.enter(&key);
            inner.claims.claim(key.clone(), want, args.clone(), deadline).await?.map(Claimed::accept)
        } else {
            let key = Queued { provider: way.provider, key };
            inner.deliveries.claim(key, want, args.clone(), deadline).await?.map(Claimed::accept)
        };
        let claimed = claimed.unwrap_or_default();
        self.count(true, &claimed);
        Ok(claimed)
    }

    async fn claim_now(&self, way: &Route, key: &Key, want: usize, args: &Args) -> Result<Vec<ClaimedStep>> {
        let (inner, key) = (&self.inner, way.key(key));
        let claimed = if way.provider == Provider::Table {
            inner.claims.claim_now(key, want, args.clone()).await?.map(Claimed::accept)
        } else {
            let key = Queued { provider: way.provider, key };
            inner.deliveries.claim_now(key, want, args.clone()).await?.map(Claimed::accept)
        };
        Ok(claimed.unwrap_or_default())
    }

    /// Counts what was claimed: by who waits for it, or by who asks now and then, or once.
    fn count(&self, waited: bool, claimed: &[ClaimedStep]) {
        let meter = &self.inner.meter;
        let counter = if waited { &meter.via_event } else { &meter.via_polling };
        counter.add(claimed.len() as u64);
    }
}

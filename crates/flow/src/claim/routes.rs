//! How the namespaces of a claim are claimed: each by its own settings, which may change during the claim.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use reveille_wake::Claimed;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::claim::release::rotate_randomly;
use crate::claim::{Args, ClaimedStep, Key};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::namespace::{Mode, NamespaceMap, Provider};
use crate::provider::deliver::DeliveryKey;

/// How long one route through RabbitMQ may take while others are still to be tried: a broker that does not answer must
/// not delay steps elsewhere. A poll that is dropped releases what it claimed.
const TURN: Duration = Duration::from_millis(250);

/// How the namespaces of one claim are claimed.
#[derive(Debug, PartialEq, Eq)]
struct Routes {
    all: Vec<Route>,
    /// The interval at which the polled routes are polled.
    pause: Duration,
}

/// Namespaces that are claimed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    /// Whether claims wait for a wake-up; otherwise they poll.
    waits: bool,
    provider: Provider,
    namespaces: Vec<String>,
}

impl Routes {
    /// An unknown namespace has the default settings. One in shadow mode is left out.
    fn of(known: &NamespaceMap, namespaces: &[String]) -> Routes {
        let mut routes = Routes { all: Vec::new(), pause: Duration::MAX };
        for name in namespaces {
            let settings = known.get(name).map(|namespace| &namespace.settings);
            let provider = settings.map_or(Provider::Table, |settings| settings.provider);
            let waits = match settings {
                Some(settings) if settings.mode == Mode::Polling => {
                    routes.pause = routes.pause.min(Duration::from_millis(settings.poll_ms.into()));
                    false
                }
                Some(settings) if settings.mode == Mode::Shadow => continue,
                _ => true,
            };
            match routes.all.iter_mut().find(|route| route.waits == waits && route.provider == provider) {
                Some(route) => route.namespaces.push(name.clone()),
                None => routes.all.push(Route { waits, provider, namespaces: vec![name.clone()] }),
            }
        }
        routes
    }
}

impl Route {
    fn key(&self, key: &Key) -> Key {
        Key { namespaces: self.namespaces.clone(), ..key.clone() }
    }
}

impl Flow {
    /// Claims for a key by the settings of its namespaces, until the deadline; `None` does not wait.
    ///
    /// # Cancel safety
    /// Dropping the future releases what was claimed for it.
    pub(crate) async fn claim_by_mode(
        &self,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let mut known = self.inner.watch_namespaces().await?;
        loop {
            let routes = Routes::of(&known.borrow_and_update(), &key.namespaces);
            let changed = async {
                while known.changed().await.is_ok() {
                    if Routes::of(&known.borrow_and_update(), &key.namespaces) != routes {
                        return;
                    }
                }
                std::future::pending().await
            };
            tokio::select! {
                claimed = self.claim_by(&routes, key, want, args, deadline) => return claimed,
                () = changed => {}
            }
        }
    }

    /// Steps that are due now are claimed through one route after the other: of several concurrent claims all but the
    /// first would be released again. Only if there are none, the claim waits on all routes.
    async fn claim_by(
        &self,
        routes: &Routes,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let (waiting, polled): (Vec<Route>, Vec<Route>) = routes.all.iter().cloned().partition(|route| route.waits);
        // A single route that waits polls by itself, unless its group is known to be empty.
        if deadline.is_none() || !polled.is_empty() || waiting.len() > 1 {
            let claimed = self.claim_in_turn(&routes.all, key, want, args, deadline).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
        }
        let Some(deadline) = deadline else { return Ok(Vec::new()) };
        let waits = waiting.iter().map(|route| self.claim_waiting(route, key, want, args, deadline).boxed());
        let waits: Vec<_> = waits.collect();
        let wait = async {
            if waits.is_empty() {
                sleep_until(deadline).await;
                return Ok(Vec::new());
            }
            // The others are dropped, which releases what they have claimed.
            select_all(waits).await.0
        };
        let poll = async {
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if polled.is_empty() || routes.pause > left {
                    // The other routes still wait, until the deadline.
                    return std::future::pending().await;
                }
                sleep(routes.pause).await;
                let claimed = self.claim_in_turn(&polled, key, want, args, Some(deadline)).await?;
                if !claimed.is_empty() {
                    return Ok(claimed);
                }
            }
        };
        tokio::select! {
            claimed = wait => claimed,
            claimed = poll => claimed,
        }
    }

    /// Claims what is due now through the first route that has something, beginning with a random one.
    async fn claim_in_turn(
        &self,
        routes: &[Route],
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let mut routes: Vec<&Route> = routes.iter().collect();
        rotate_randomly(&mut routes);
        for route in routes {
            let claim = self.claim_now(route, key, want, args);
            let waits = deadline.filter(|_| route.waits);
            let claimed = if let Some(deadline) = waits {
                let turn = Instant::now() + TURN;
                let until = if route.provider == Provider::Rabbitmq { turn } else { turn.max(deadline) };
                match timeout_at(until, claim).await {
                    Ok(Ok(claimed)) => claimed,
                    // The wait on all routes that follows includes this one, and tolerates transient errors.
                    Err(_) | Ok(Err(Error::Wake(reveille_wake::Error::Unavailable { .. }))) => continue,
                    Ok(Err(error)) => return Err(error),
                }
            } else {
                claim.await?
            };
            // Return at once: an error of another route must not lose these steps.
            if !claimed.is_empty() {
                self.count(waits.is_some(), &claimed);
                return Ok(claimed);
            }
        }
        Ok(Vec::new())
    }

    async fn claim_waiting(
        &self,
        route: &Route,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Instant,
    ) -> Result<Vec<ClaimedStep>> {
        let (inner, key) = (&self.inner, route.key(key));
        let claimed = if route.provider == Provider::Table {
            let _waiting = inner.waiting.enter(&key);
            inner.claims.claim(key.clone(), want, args.clone(), deadline).await?.map(Claimed::accept)
        } else {
            let key = DeliveryKey { provider: route.provider, key };
            inner.deliveries.claim(key, want, args.clone(), deadline).await?.map(Claimed::accept)
        };
        let claimed = claimed.unwrap_or_default();
        self.count(true, &claimed);
        Ok(claimed)
    }

    async fn claim_now(&self, route: &Route, key: &Key, want: usize, args: &Args) -> Result<Vec<ClaimedStep>> {
        let (inner, key) = (&self.inner, route.key(key));
        let claimed = if route.provider == Provider::Table {
            inner.claims.claim_now(key, want, args.clone()).await?.map(Claimed::accept)
        } else {
            let key = DeliveryKey { provider: route.provider, key };
            inner.deliveries.claim_now(key, want, args.clone()).await?.map(Claimed::accept)
        };
        Ok(claimed.unwrap_or_default())
    }

    /// Counts claimed steps: of claims that wait, and of claims that poll.
    fn count(&self, waited: bool, claimed: &[ClaimedStep]) {
        let meter = &self.inner.meter;
        let counter = if waited { &meter.via_event } else { &meter.via_polling };
        counter.add(claimed.len() as u64);
    }
}

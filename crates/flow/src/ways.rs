//! Which namespaces are waited for, and which are asked now and then: as each is set, and from the moment that changes.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tokio::time::{Instant, sleep_until};

use crate::claim::{Args, ClaimedStep, Key};
use crate::error::Result;
use crate::flow::Flow;
use crate::namespace::{Known, Mode, Provider};
use crate::provider::deliver::Queued;

/// How the namespaces of one claim are claimed, each through what it is handed out.
#[derive(Debug, PartialEq, Eq)]
struct Ways {
    /// Whoever waits for these is woken.
    waited: Vec<(Provider, Vec<String>)>,
    /// These are asked, this often.
    asked: Vec<(Provider, Vec<String>)>,
    pause: Duration,
}

impl Ways {
    /// A namespace that nobody knows yet is waited for; one that is only listened to is left out.
    fn of(known: &Known, namespaces: &[String]) -> Ways {
        let mut ways = Ways { waited: Vec::new(), asked: Vec::new(), pause: Duration::MAX };
        let add = |ways: &mut Vec<(Provider, Vec<String>)>, provider: Provider, name: &String| match ways
            .iter_mut()
            .find(|(of, _)| *of == provider)
        {
            Some((_, names)) => names.push(name.clone()),
            None => ways.push((provider, vec![name.clone()])),
        };
        for name in namespaces {
            let settings = known.get(name).map(|namespace| &namespace.settings);
            let provider = settings.map_or(Provider::Table, |settings| settings.provider);
            match settings {
                Some(settings) if settings.mode == Mode::Polling => {
                    add(&mut ways.asked, provider, name);
                    ways.pause = ways.pause.min(Duration::from_millis(settings.poll_ms.into()));
                }
                Some(settings) if settings.mode == Mode::Shadow => {}
                _ => add(&mut ways.waited, provider, name),
            }
        }
        ways
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
            let ways = Ways::of(&known.borrow_and_update(), &key.namespaces);
            let other = async {
                while known.changed().await.is_ok() {
                    if Ways::of(&known.borrow_and_update(), &key.namespaces) != ways {
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

    async fn claim_by(
        &self,
        ways: &Ways,
        key: &Key,
        want: usize,
        args: &Args,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        let of = |namespaces: &[String]| Key { namespaces: namespaces.to_vec(), ..key.clone() };
        let once = async |ways: &[(Provider, Vec<String>)]| {
            for (provider, namespaces) in ways {
                let claimed = self.claim_once(*provider, of(namespaces), want, args).await?;
                // What is here is not to be lost while another is asked.
                if !claimed.is_empty() {
                    return Ok(claimed);
                }
            }
            Ok(Vec::new())
        };
        let Some(deadline) = deadline else {
            return once(&[ways.waited.as_slice(), &ways.asked].concat()).await;
        };
        let waits = ways
            .waited
            .iter()
            .map(|(provider, namespaces)| self.claim_waiting(*provider, of(namespaces), want, args, deadline).boxed());
        let waits: Vec<_> = waits.collect();
        let waited = async {
            if waits.is_empty() {
                sleep_until(deadline).await;
                return Ok(Vec::new());
            }
            // Those that are not first give back what they have.
            let claimed = select_all(waits).await.0?;
            self.inner.meter.via_event.add(claimed.len() as u64);
            Ok(claimed)
        };
        if ways.asked.is_empty() {
            return waited.await;
        }
        let asked = async {
            loop {
                let claimed: Vec<ClaimedStep> = once(&ways.asked).await?;
                let next = Instant::now() + ways.pause;
                if !claimed.is_empty() {
                    return Ok(claimed);
                }
                if next > deadline {
                    // Those that are waited for may still come; that wait ends with the deadline.
                    return std::future::pending().await;
                }
                sleep_until(next).await;
            }
        };
        tokio::select! {
            claimed = waited => claimed,
            claimed = asked => claimed,
        }
    }

    async fn claim_waiting(
        &self,
        provider: Provider,
        key: Key,
        want: usize,
        args: &Args,
        deadline: Instant,
    ) -> Result<Vec<ClaimedStep>> {
        if provider == Provider::Table {
            let namespaces = key.namespaces.clone();
            let _waiter = self.inner.waiting.enter(&namespaces);
            let claimed = self.inner.claims.claim(key, want, args.clone(), deadline).await?;
            return Ok(claimed.map(|claimed| claimed.accept()).unwrap_or_default());
        }
        let claimed = self.inner.deliveries.claim(Queued { provider, key }, want, args.clone(), deadline).await?;
        Ok(claimed.map(|claimed| claimed.accept()).unwrap_or_default())
    }

    async fn claim_once(&self, provider: Provider, key: Key, want: usize, args: &Args) -> Result<Vec<ClaimedStep>> {
        let claimed = if provider == Provider::Table {
            let claimed = self.inner.claims.claim_now(key, want, args.clone()).await?;
            claimed.map(|claimed| claimed.accept()).unwrap_or_default()
        } else {
            let claimed = self.inner.deliveries.claim_now(Queued { provider, key }, want, args.clone()).await?;
            claimed.map(|claimed| claimed.accept()).unwrap_or_default()
        };
        self.inner.meter.via_polling.add(claimed.len() as u64);
        Ok(claimed)
    }
}

//! Which namespaces are waited for, and which are asked now and then: as each is set, and from the moment that changes.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::claim::{Args, ClaimedStep, Key};
use crate::error::Result;
use crate::flow::Flow;
use crate::namespace::{Known, Mode};

/// How the namespaces of one claim are claimed.
#[derive(Debug, PartialEq, Eq)]
struct Ways {
    /// Whoever waits for these is woken.
    waited: Vec<String>,
    /// These are asked, this often.
    asked: Vec<String>,
    pause: Duration,
}

impl Ways {
    /// A namespace that nobody knows yet is waited for; one that is only listened to is left out.
    fn of(known: &Known, namespaces: &[String]) -> Ways {
        let mut ways = Ways { waited: Vec::new(), asked: Vec::new(), pause: Duration::MAX };
        for name in namespaces {
            match known.get(name).map(|namespace| &namespace.settings) {
                Some(settings) if settings.mode == Mode::Polling => {
                    ways.asked.push(name.clone());
                    ways.pause = ways.pause.min(Duration::from_millis(settings.poll_ms.into()));
                }
                Some(settings) if settings.mode == Mode::Shadow => {}
                _ => ways.waited.push(name.clone()),
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
        let Some(deadline) = deadline else {
            return self.claim_once(of(&[ways.waited.as_slice(), &ways.asked].concat()), want, args).await;
        };
        let waited = async {
            let _waiter = self.inner.waiting.enter(&ways.waited);
            let claimed = self.inner.claims.claim(of(&ways.waited), want, args.clone(), deadline).await?;
            let claimed = claimed.map(|claimed| claimed.accept()).unwrap_or_default();
            self.inner.meter.via_event.add(claimed.len() as u64);
            Ok(claimed)
        };
        if ways.asked.is_empty() {
            return waited.await;
        }
        let asked = async {
            loop {
                let claimed = self.claim_once(of(&ways.asked), want, args).await?;
                let next = Instant::now() + ways.pause;
                if !claimed.is_empty() || next > deadline {
                    return Ok(claimed);
                }
                sleep_until(next).await;
            }
        };
        tokio::select! {
            claimed = waited => claimed,
            claimed = asked => match claimed {
                Ok(claimed) if claimed.is_empty() => {
                    sleep_until(deadline).await;
                    Ok(claimed)
                }
                claimed => claimed,
            },
        }
    }

    async fn claim_once(&self, key: Key, want: usize, args: &Args) -> Result<Vec<ClaimedStep>> {
        let claimed = self.inner.claims.claim_now(key, want, args.clone()).await?;
        let claimed = claimed.map(|claimed| claimed.accept()).unwrap_or_default();
        self.inner.meter.via_polling.add(claimed.len() as u64);
        Ok(claimed)
    }
}

//! Claiming steps by what carries them out, instead of by their names.
//!
//! Steps wait by their names. So a claim by callables is one by the names that stand for them in the templates of its namespaces. A name that stands for another callable as well cannot be claimed like
//! this: the worker would get steps that it cannot carry out. That is an error and not an empty answer, because the steps would wait for ever without anybody noticing.
//!
//! A template that is registered while a worker waits counts at once: registering wakes the followers of namespaces.

use sqlx::Row;
use tokio::time::{Instant, sleep_until};

use crate::claim::{ClaimRequest, ClaimedStep, NAMES_MAX};
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::name;

impl Flow {
    /// Claims up to `want` steps that are carried out by one of these callables, as [`Flow::claim`] does. The claimant names no steps.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a claimant or callables that are invalid, and if the name of such a step stands for another callable as well; else the engine's or the database's.
    ///
    /// # Cancel safety
    /// Dropping the future gives back whatever was claimed for it, uncharged.
    pub async fn claim_callables(
        &self,
        claimant: &ClaimRequest,
        callables: &[String],
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        claimant.check()?;
        if claimant.steps.is_some() {
            return Err(Error::invalid("callables", "cannot be combined with `steps`: give one of them"));
        }
        if !(1..=NAMES_MAX).contains(&callables.len()) {
            let reason = format!("must have between 1 and {NAMES_MAX} elements, got {}", callables.len());
            return Err(Error::invalid("callables", reason));
        }
        callables.iter().try_for_each(|callable| name::check("callables", callable))?;
        let mut known = self.inner.known_namespaces().await?;
        loop {
            known.borrow_and_update();
            let names = self.inner.names_of(callables, &claimant.namespaces).await?;
            let named = !names.is_empty();
            let claimant = ClaimRequest { steps: Some(names), ..claimant.clone() };
            let claim = async {
                if named {
                    return self.claim(&claimant, want, deadline).await;
                }
                // No template has such a step yet.
                if let Some(deadline) = deadline {
                    sleep_until(deadline).await;
                }
                Ok(Vec::new())
            };
            tokio::select! {
                biased;
                claimed = claim => return claimed,
                Ok(()) = known.changed() => {}
            }
        }
    }
}

impl Inner {
    /// The names that stand for these callables in these namespaces, and for nothing else.
    async fn names_of(&self, callables: &[String], namespaces: &[String]) -> Result<Vec<String>> {
        let most = NAMES_MAX as i64 + 1;
        let query = || sqlx::query(&self.sql.names_by_callable).bind(namespaces).bind(callables).bind(most);
        let rows = self.db.ask("find steps by their callables", query).await?;
        if rows.len() > NAMES_MAX {
            let reason = format!("stand for more than {NAMES_MAX} names of steps; claim fewer callables at a time");
            return Err(Error::invalid("callables", reason));
        }
        let mut names = Vec::with_capacity(rows.len());
        for row in rows {
            let name: String = row.try_get("name")?;
            if let Some(other) = row.try_get::<Option<String>, _>("other_callable")? {
                let template: String = row.try_get("other_template")?;
                let reason = format!(
                    "step {name:?} also stands for callable {other:?}, in template {template}; claim that callable as well, or claim by the names of steps"
                );
                return Err(Error::invalid("callables", reason));
            }
            names.push(name);
        }
        Ok(names)
    }
}

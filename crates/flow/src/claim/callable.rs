//! Claiming steps by their callables instead of their names.
//!
//! The step table knows only names. So a claim by callables looks up the step names that have these callables in the
//! templates of its namespaces. A name that also has another callable is an error: the worker would get steps that it
//! has no handler for. If it were skipped instead, its steps would wait forever, unnoticed.
//!
//! A template that is registered while a worker waits takes effect at once: registering wakes the claim.

use sqlx::Row;
use tokio::time::{Instant, sleep_until};

use crate::claim::{ClaimRequest, ClaimedStep, NAMES_MAX};
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::name;

impl Flow {
    /// Claims up to `want` steps with one of these callables, as [`Flow::claim`] does. The request must not name steps.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid parameter, and if a step name also has another callable; otherwise an error of
    /// the engine or the database.
    ///
    /// # Cancel safety
    /// Dropping the future releases the steps that were claimed for it; the attempt is not counted.
    pub async fn claim_callables(
        &self,
        request: &ClaimRequest,
        callables: &[String],
        want: usize,
        deadline: Option<Instant>,
    ) -> Result<Vec<ClaimedStep>> {
        request.check()?;
        if request.steps.is_some() {
            return Err(Error::invalid("callables", "cannot be combined with `steps`: give one of them"));
        }
        if !(1..=NAMES_MAX).contains(&callables.len()) {
            let reason = format!("must have between 1 and {NAMES_MAX} elements, got {}", callables.len());
            return Err(Error::invalid("callables", reason));
        }
        callables.iter().try_for_each(|callable| name::check("callables", callable))?;
        let mut known = self.inner.watch_namespaces().await?;
        loop {
            known.borrow_and_update();
            let names = self.inner.names_of(callables, &request.namespaces).await?;
            let named = !names.is_empty();
            let request = ClaimRequest { steps: Some(names), ..request.clone() };
            let claim = async {
                if named {
                    return self.claim(&request, want, deadline).await;
                }
                // No template has such a step so far.
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
    /// The step names that have these callables in these namespaces, and no others.
    async fn names_of(&self, callables: &[String], namespaces: &[String]) -> Result<Vec<String>> {
        let most = NAMES_MAX as i64 + 1;
        let query = || sqlx::query(&self.sql.names_by_callable).bind(namespaces).bind(callables).bind(most);
        let rows = self.db.ask("find steps by their callables", query).await?;
        if rows.len() > NAMES_MAX {
            let reason = format!("must have at most {NAMES_MAX} step names together; claim fewer callables at a time");
            return Err(Error::invalid("callables", reason));
        }
        let mut names = Vec::with_capacity(rows.len());
        for row in rows {
            let name: String = row.try_get("name")?;
            if let Some(other) = row.try_get::<Option<String>, _>("other_callable")? {
                let template: String = row.try_get("other_template")?;
                let reason = format!(
                    "step {name:?} also has callable {other:?}, in template {template}: \
                     claim that callable as well, or claim by step names"
                );
                return Err(Error::invalid("callables", reason));
            }
            names.push(name);
        }
        Ok(names)
    }
}

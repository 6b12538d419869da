//! Which handler carries out what.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::handler::{Answer, Carry, Function, Handler};
use super::step::Step;
use crate::complete::Failure;
use crate::error::{Error, Result};

/// Handlers by the callables that templates name. Cheap to clone: several workers can have the same.
#[derive(Clone, Default)]
pub struct Handlers {
    registry: HashMap<String, Arc<dyn Carry>>,
    twice: Option<String>,
}

impl Handlers {
    /// None yet.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Has an async function carry out the steps whose template names this callable: see [`WorkerBuilder::handle`](super::WorkerBuilder::handle).
    #[must_use]
    pub fn handle<F, C, W, O>(self, callable: impl Into<String>, function: F) -> Handlers
    where
        F: Fn(Step<C>) -> W + Send + Sync + 'static,
        C: DeserializeOwned + Send + 'static,
        W: Future<Output = Result<O, Failure>> + Send + 'static,
        O: Answer + 'static,
    {
        self.register(callable, Function::new(function))
    }

    /// Has a handler carry out the steps whose template names this callable.
    #[must_use]
    pub fn register(mut self, callable: impl Into<String>, handler: impl Handler) -> Handlers {
        let callable = callable.into();
        if self.registry.insert(callable.clone(), Arc::new(handler)).is_some() {
            self.twice.get_or_insert(callable);
        }
        self
    }

    /// By callable.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, or two for one callable.
    pub(super) fn registry(self) -> Result<HashMap<String, Arc<dyn Carry>>> {
        if self.registry.is_empty() {
            return Err(Error::invalid("handlers", "there is none"));
        }
        match self.twice {
            Some(callable) => Err(Error::invalid("handlers", format!("there are two for {callable:?}"))),
            None => Ok(self.registry),
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.registry.keys()).finish()
    }
}

//! The registry of handlers.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::handler::{Function, Handler, HandlerOutput, RunHandler};
use super::step::Step;
use crate::complete::Failure;
use crate::error::{Error, Result};

/// Handlers by callable. Cheap to clone: several workers can share them.
#[derive(Clone, Default)]
pub struct Handlers {
    registry: HashMap<String, Arc<dyn RunHandler>>,
    duplicate: Option<String>,
}

impl Handlers {
    /// An empty registry.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Registers an async function as the handler of a callable: see
    /// [`WorkerBuilder::handle`](super::WorkerBuilder::handle).
    #[must_use]
    pub fn handle<F, C, W, O>(self, callable: impl Into<String>, function: F) -> Handlers
    where
        F: Fn(Step<C>) -> W + Send + Sync + 'static,
        C: DeserializeOwned + Send + 'static,
        W: Future<Output = Result<O, Failure>> + Send + 'static,
        O: HandlerOutput + 'static,
    {
        self.register(callable, Function::new(function))
    }

    /// Registers a handler for a callable.
    #[must_use]
    pub fn register(mut self, callable: impl Into<String>, handler: impl Handler) -> Handlers {
        let callable = callable.into();
        if self.registry.insert(callable.clone(), Arc::new(handler)).is_some() {
            self.duplicate.get_or_insert(callable);
        }
        self
    }

    /// The handlers by callable.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, or two for one callable.
    pub(super) fn registry(self) -> Result<HashMap<String, Arc<dyn RunHandler>>> {
        if self.registry.is_empty() {
            return Err(Error::invalid("handlers", "at least one handler is required"));
        }
        match self.duplicate {
            Some(callable) => Err(Error::invalid("handlers", format!("duplicate handler for callable {callable:?}"))),
            None => Ok(self.registry),
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.registry.keys()).finish()
    }
}

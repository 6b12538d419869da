//! The provider in memory: duroxide's whole validation suite, and what this one promises beyond it.

mod items;
mod order;
mod runtime;
mod suite;
mod waiting;

//! The HTTP API of flow, tested against real servers.

mod claims;
mod documented;
mod events;
mod example;
mod faults;
pub(crate) mod fixture;
mod operations;
mod reading;
mod reports;
mod schedules;
mod schema;
mod settings;
mod tasks;
mod templates;
mod values;
mod waiting;

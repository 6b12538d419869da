//! Task graphs over HTTP, against real servers: what workers and those who want something done send, and what they must read.

mod claims;
mod documented;
mod events;
mod example;
mod faults;
mod fixture;
mod operations;
mod reading;
mod reports;
mod schedules;
mod schema;
mod settings;
mod tasks;
mod templates;
mod values;

//! The queue's wire contract, against real servers: the requests of existing clients, and the responses that they
//! expect.

mod acks;
mod admin;
mod bad_clients;
mod checker;
mod clients;
mod console;
mod document;
mod faults;
pub(crate) mod fixture;
mod full_disk;
mod leases;
mod many_waiters;
mod operate;
mod pops;
mod pushes;
mod schema;
mod transactions;
mod unavailable;
mod waits;

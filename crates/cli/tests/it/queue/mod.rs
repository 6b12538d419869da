//! The queue's wire contract, against real servers: what clients in the field send, and what they must read.

mod acks;
mod admin;
mod away;
mod checker;
mod clients;
mod document;
mod faults;
pub(crate) mod fixture;
mod full_disk;
mod leases;
mod parked;
mod pops;
mod pushes;
mod rude;
mod schema;
mod transactions;
mod waits;

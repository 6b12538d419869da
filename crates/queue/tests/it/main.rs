//! The engine against a real PostgreSQL.

mod acks;
mod attached;
mod balance;
mod configure;
mod consumer;
mod dead_letters;
mod dedup;
mod deliveries;
mod encryption;
mod figures;
mod fixture;
mod groups;
mod maintenance;
mod message_counts;
mod messages;
mod order;
mod pages;
mod pops;
mod resources;
mod retention;
mod schema;
mod shortages;
mod sizes;
mod status;
mod traces;
mod transactions;

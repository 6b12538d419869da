//! The program as people run it: real processes, real PostgreSQL, HTTP over real sockets.

mod command_line;
mod config;
mod described;
mod doctor;
mod down;
mod durable;
mod edge;
mod failover_client;
mod flow;
mod front;
mod http;
mod idle;
mod migrate;
mod process;
mod python;
mod queue;
mod remote;
mod request_ids;
mod root;
mod schemathesis;
mod serve;
mod server;
mod starting;
mod statistics;
mod tls;
mod up;

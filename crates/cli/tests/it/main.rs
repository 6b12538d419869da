//! The program as people run it: real processes, real PostgreSQL, HTTP over real sockets.

mod command_line;
mod doctor;
mod durable;
mod http;
mod migrate;
mod process;
mod queue;
mod serve;
mod server;
mod up;

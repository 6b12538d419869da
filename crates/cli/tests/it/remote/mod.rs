//! Commands that speak to a running server.

mod fixture;
mod reach;

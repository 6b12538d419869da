//! Crashes, stalls and lost notifications: every step is completed exactly once.

mod crowd;
mod database;
mod listening;
mod published;
mod servers;
mod workers;

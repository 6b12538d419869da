//! Workers, servers, the database and its notifications that die, stand still or are taken away: every step is done, and counts once.

mod crowd;
mod database;
mod listening;
mod published;
mod servers;
mod workers;

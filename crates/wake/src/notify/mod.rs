//! How a wake-up reaches the groups it is for, in this process and in others.

pub(crate) mod channel;
pub(crate) mod dispatcher;
mod held;
mod listener;
mod notifier;
mod own;
pub(crate) mod rate;
mod received;

//! How often a peer may try to log in.
//!
//! Tokens are too long to be guessed, but the secret of an administrator may be shorter, and every attempt costs a
//! statement or a request to the OpenID provider. So the attempts of one peer address are bounded per minute. The
//! memory is bounded, too: at [`PEERS_MAX`] the oldest minute is forgotten.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Attempts of one peer per [`WINDOW`].
const ATTEMPTS_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(60);

/// The most peers in memory.
const PEERS_MAX: usize = 10_000;

/// Attempts by peer address.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<IpAddr, Minute>>);

#[derive(Clone, Copy)]
struct Minute {
    began: Instant,
    attempts: u32,
}

impl Attempts {
    /// Counts an attempt. An error is the time after which another is allowed.
    pub(super) fn count(&self, peer: IpAddr) -> Result<(), Duration> {
        let (peer, now) = (network(peer), Instant::now());
        let mut minutes = self.0.lock();
        if minutes.len() >= PEERS_MAX && !minutes.contains_key(&peer) {
            minutes.retain(|_, minute| now < minute.began + WINDOW);
            let oldest = minutes.iter().min_by_key(|(_, minute)| minute.began).map(|(peer, _)| *peer);
            if let Some(oldest) = oldest.filter(|_| minutes.len() >= PEERS_MAX) {
                minutes.remove(&oldest);
            }
        }
        let minute = minutes.entry(peer).or_insert(Minute { began: now, attempts: 0 });
        if now >= minute.began + WINDOW {
            *minute = Minute { began: now, attempts: 0 };
        }
        minute.attempts += 1;
        match minute.attempts > ATTEMPTS_MAX {
            true => Err(minute.began + WINDOW - now),
            false => Ok(()),
        }
    }
}

/// A host of version 6 has a network of 64 bits to itself.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() & (u128::MAX << 64))),
        peer => peer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    /// A peer has its attempts per minute, whatever others do. Time is paused and advanced explicitly.
    #[tokio::test(start_paused = true)]
    async fn attempts_are_bounded_per_peer_and_minute() {
        let attempts = Attempts::default();
        for _ in 0..ATTEMPTS_MAX {
            attempts.count(peer(1)).expect("allowed");
        }
        tokio::time::advance(WINDOW / 2).await;
        assert_eq!(attempts.count(peer(1)), Err(WINDOW / 2));
        attempts.count(peer(2)).expect("another peer");
        tokio::time::advance(WINDOW / 2).await;
        attempts.count(peer(1)).expect("allowed again");
    }

    /// Any number of peers takes bounded memory, and addresses of one network count together.
    #[tokio::test(start_paused = true)]
    async fn the_memory_of_attempts_is_bounded() {
        let attempts = Attempts::default();
        for number in 0..2 * PEERS_MAX as u32 {
            attempts.count(peer(number)).expect("its first");
        }
        assert!(attempts.0.lock().len() <= PEERS_MAX);
        let (one, other): (IpAddr, IpAddr) = ("2001:db8::1".parse().expect("v6"), "2001:db8::2:3".parse().expect("v6"));
        assert_eq!(network(one), network(other));
    }
}

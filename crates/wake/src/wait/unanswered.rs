//! Claims that were sent and whose answer was lost.
//!
//! A poll that fails or times out may have committed: then it has leased rows for no waiter, and without further action
//! they stay leased until their leases end. If the product names each claim *before* it sends it (by a lease id or a
//! fence), it can give back what such a claim has leased. [`UnansweredClaims`] remembers these names:
//! [`sent`](UnansweredClaims::sent) returns a guard that adds them when it is dropped without an answer, and the next
//! poll [takes](UnansweredClaims::take) them and gives their rows back first.

use std::sync::Arc;

use parking_lot::Mutex;

/// Names remembered; rows of claims beyond it stay leased until their leases end. One poll may have a name for each of
/// thousands of waiters.
const UNANSWERED_MAX: usize = 10_000;

/// Names that are taken at a time: one statement gives their rows back before the next claim.
const TAKEN_MAX: usize = 1_000;

/// The names of claims whose answer was lost.
///
/// ```
/// let unanswered = reveille_wake::UnansweredClaims::new();
/// let sent = unanswered.sent([7]);
/// drop(sent); // The statement failed or was cancelled.
///
/// let lost = unanswered.take();
/// assert_eq!(lost.names(), [7]);
/// // Give back the rows of these claims, then:
/// lost.answered();
/// assert!(unanswered.take().names().is_empty());
/// ```
#[derive(Debug)]
pub struct UnansweredClaims<T> {
    names: Arc<Mutex<Vec<T>>>,
}

/// Claims whose answer is awaited. Dropped without [`answered`](Self::answered), they are unanswered.
#[derive(Debug)]
#[must_use = "dropping it at once makes its claims unanswered"]
pub struct SentClaims<T> {
    unanswered: Arc<Mutex<Vec<T>>>,
    names: Vec<T>,
}

impl<T> UnansweredClaims<T> {
    /// None yet.
    pub fn new() -> Self {
        UnansweredClaims { names: Arc::default() }
    }

    /// Claims that are about to be sent.
    pub fn sent(&self, names: impl IntoIterator<Item = T>) -> SentClaims<T> {
        SentClaims { unanswered: self.names.clone(), names: names.into_iter().collect() }
    }

    /// Takes unanswered claims, a bounded number of them, whose rows the caller gives back. If that fails, dropping the
    /// guard keeps them.
    pub fn take(&self) -> SentClaims<T> {
        let mut names = self.names.lock();
        let taken = names.len().min(TAKEN_MAX);
        SentClaims { unanswered: self.names.clone(), names: names.drain(..taken).collect() }
    }
}

impl<T> Default for UnansweredClaims<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SentClaims<T> {
    /// The names of the claims.
    pub fn names(&self) -> &[T] {
        &self.names
    }

    /// The answer has arrived: nothing has to be given back.
    pub fn answered(mut self) {
        self.names.clear();
    }
}

impl<T> Drop for SentClaims<T> {
    fn drop(&mut self) {
        if !self.names.is_empty() {
            let mut unanswered = self.unanswered.lock();
            let room = UNANSWERED_MAX.saturating_sub(unanswered.len());
            unanswered.extend(self.names.drain(..).take(room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only claims without an answer are remembered, and a failed attempt to give them back keeps them.
    #[test]
    fn claims_without_an_answer_are_remembered_until_given_back() {
        let unanswered = UnansweredClaims::new();
        unanswered.sent([1, 2]).answered();
        drop(unanswered.sent([3]));
        drop(unanswered.take());
        let lost = unanswered.take();
        assert_eq!(lost.names(), [3]);
        drop(unanswered.sent([4]));
        lost.answered();
        assert_eq!(unanswered.take().names(), [4]);
    }

    /// The list is bounded.
    #[test]
    fn claims_beyond_the_limit_are_not_remembered() {
        let unanswered = UnansweredClaims::new();
        drop(unanswered.sent(0..UNANSWERED_MAX + 10));
        drop(unanswered.sent([0]));
        let mut remembered = 0;
        loop {
            let lost = unanswered.take();
            remembered += lost.names().len();
            match lost.names().len() {
                0 => break,
                taken => assert!(taken <= TAKEN_MAX),
            }
            lost.answered();
        }
        assert_eq!(remembered, UNANSWERED_MAX);
    }
}

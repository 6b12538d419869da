//! Fair shares of items that any waiter may have.

/// Deals items to waiters in turns: each gets one before any gets a second, and none gets more than it wants. Returns
/// the waiter's index for each item, in the order of the items; items beyond what all want are left out at the end.
///
/// `wants` is in order of waiting time.
pub(crate) fn deal(items: usize, wants: &[usize]) -> Vec<usize> {
    let mut waiters = Vec::with_capacity(items);
    let mut round = 0;
    while waiters.len() < items {
        let before = waiters.len();
        let unserved = wants.iter().enumerate().filter(|(_, want)| **want > round).map(|(waiter, _)| waiter);
        waiters.extend(unserved.take(items - before));
        if waiters.len() == before {
            break;
        }
        round += 1;
    }
    waiters
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three items for two waiters: the one that waited longer gets two.
    #[test]
    fn the_longest_waiter_gets_the_odd_item() {
        assert_eq!(deal(3, &[5, 5]), vec![0, 1, 0]);
        assert_eq!(deal(4, &[1, 2]), vec![0, 1, 1]);
        assert_eq!(deal(2, &[]), Vec::<usize>::new());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No waiter gets more than it wants, no wanted item is left over, and no waiter is more than one item ahead of
        /// an earlier one that still wants more.
        #[test]
        fn shares_are_fair(items in 0usize..200, wants in prop::collection::vec(0usize..10, 0..20)) {
            let waiters = deal(items, &wants);
            prop_assert_eq!(waiters.len(), items.min(wants.iter().sum()));
            let got: Vec<usize> = (0..wants.len()).map(|s| waiters.iter().filter(|x| **x == s).count()).collect();
            for (waiter, got_here) in got.iter().enumerate() {
                prop_assert!(*got_here <= wants[waiter]);
                for (other, got_there) in got.iter().enumerate() {
                    if *got_here < wants[waiter] {
                        prop_assert!(*got_there <= got_here + usize::from(other < waiter));
                    }
                }
            }
        }
    }
}

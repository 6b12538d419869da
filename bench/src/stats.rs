//! Percentiles, medians and their spread; and the order in which systems take turns.

use std::time::Duration;

/// Latencies of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies(Vec<f64>);

impl Latencies {
    /// Adds a latency.
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(latency.as_secs_f64() * 1_000.0);
    }

    /// Adds all latencies of `other`.
    pub(crate) fn extend(&mut self, other: Latencies) {
        self.0.extend(other.0);
    }

    /// The number of latencies.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The latency, in milliseconds, that a share `q` of all does not exceed; NaN if there are none.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        quantile(&self.0, q)
    }
}

/// The same figure over several rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds the figure of one round.
    pub(crate) fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// The median; NaN if there are no rounds.
    pub(crate) fn median(&self) -> f64 {
        quantile(&self.0, 0.5)
    }

    /// The range from the least to the largest figure, as a share of the median: how reliable the figure is.
    pub(crate) fn spread(&self) -> f64 {
        (quantile(&self.0, 1.0) - quantile(&self.0, 0.0)) / self.median()
    }

    /// The least and the largest figure, without those of rounds that failed; `None` if there is none.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let known = self.0.iter().copied().filter(|figure| figure.is_finite());
        known.map(|figure| (figure, figure)).reduce(|(least, most), (figure, _)| (least.min(figure), most.max(figure)))
    }

    /// Round by round, this figure divided by another. A round in which the machine was slow affects both.
    pub(crate) fn over(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect())
    }

    /// Round by round, this figure minus another.
    pub(crate) fn less(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine - theirs).collect())
    }
}

fn quantile(figures: &[f64], q: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(index.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// The systems in the order in which they run in one round. Each round begins with another system, so that none is
/// always first.
pub(crate) fn turns<T: Copy>(systems: &[T], round: usize) -> Vec<T> {
    let mut order = systems.to_vec();
    order.rotate_left(round % systems.len().max(1));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Percentiles are by the nearest rank: of a hundred values the 99th is the p99; one value is all its percentiles.
    #[test]
    fn quantiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&hundred, q)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[7.0], 0.01), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    /// A round in which both systems were slow must not change their ratio.
    #[test]
    fn ratios_are_taken_within_a_round() {
        let (fast, slow) = (Rounds(vec![100.0, 50.0, 100.0]), Rounds(vec![50.0, 25.0, 50.0]));
        assert_eq!(slow.over(&fast).median(), 0.5);
        assert_eq!(slow.over(&fast).spread(), 0.0);
        assert_eq!(fast.spread(), 0.5);
        assert_eq!(fast.range(), Some((50.0, 100.0)));
        assert_eq!((Rounds(vec![f64::NAN, 2.0]).range(), Rounds::default().range()), (Some((2.0, 2.0)), None));
    }

    /// Every system runs once per round, and none is always first.
    #[test]
    fn turns_rotate() {
        assert_eq!(turns(&['a', 'b', 'c'], 1), ['b', 'c', 'a']);
        assert_eq!(turns(&['a', 'b', 'c'], 3), ['a', 'b', 'c']);
        assert!(turns::<u8>(&[], 2).is_empty());
    }
}

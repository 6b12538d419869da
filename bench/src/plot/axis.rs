//! Axes: from values to positions, with their ticks; and numbers as text.

/// The least ratio of the largest to the smallest value from which an axis is logarithmic.
const SPANS: f64 = 10.0;
/// A linear axis has at most this many ticks.
const TICKS: f64 = 6.0;

/// A range of values on a range of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    is_log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis for these values: logarithmic if they span a decade, and else linear from zero. Values that are not
    /// finite have no influence.
    pub(super) fn for_values(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (least, most) = extent(values);
        if least > 0.0 && most / least >= SPANS {
            Axis::log(least, most, from, to)
        } else {
            Axis::linear(most, from, to)
        }
    }

    /// A linear axis from zero to a round number that is not below `most`.
    pub(super) fn linear(most: f64, from: f64, to: f64) -> Axis {
        let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        let step = step(most);
        Axis { is_log: false, low: 0.0, high: (most / step).ceil() * step, from, to }
    }

    /// A linear axis that ends exactly at `most`, as one of time does.
    pub(super) fn until(most: f64, from: f64, to: f64) -> Axis {
        Axis { is_log: false, low: 0.0, high: if most > 0.0 { most } else { 1.0 }, from, to }
    }

    /// A logarithmic axis that begins and ends at 1, 2 or 5 times a power of ten.
    pub(super) fn log(least: f64, most: f64, from: f64, to: f64) -> Axis {
        let mut low = 10_f64.powf(least.log10().floor());
        for factor in [5.0, 2.0] {
            if least >= factor * low {
                low *= factor;
                break;
            }
        }
        let decade = 10_f64.powf(most.log10().floor());
        let high = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|high| most <= *high * 1.000_1);
        Axis { is_log: true, low, high: high.unwrap_or(most).max(low * 2.0), from, to }
    }

    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// The position of a value; a value outside the axis is put at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// The values at which the axis has ticks, at least `gap` pixels apart.
    pub(super) fn ticks(&self, gap: f64) -> Vec<f64> {
        let candidates: &[&[f64]] = &[&[1.0, 2.0, 5.0], &[1.0, 5.0], &[1.0]];
        if !self.is_log {
            let mut step = step(self.high);
            while step * (self.to - self.from).abs() / self.high < gap && step < self.high {
                step *= 2.0;
            }
            let count = (self.high / step + 1e-9).floor() as usize;
            return (0..=count).map(|tick| tick as f64 * step).collect();
        }
        for factors in candidates {
            let ticks = self.log_ticks(factors);
            if ticks.windows(2).all(|pair| (self.at(pair[1]) - self.at(pair[0])).abs() >= gap) {
                return ticks;
            }
        }
        let decades = self.log_ticks(&[1.0]);
        let mut every = 2;
        loop {
            let ticks: Vec<f64> = decades.iter().copied().step_by(every).collect();
            if ticks.windows(2).all(|pair| (self.at(pair[1]) - self.at(pair[0])).abs() >= gap) {
                return ticks;
            }
            every += 1;
        }
    }

    fn log_ticks(&self, factors: &[f64]) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let ticks = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)));
        ticks.filter(|tick| *tick >= self.low * 0.999 && *tick <= self.high * 1.001).collect()
    }
}

/// The least and the largest of the values that are finite.
pub(super) fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

/// The distance of the ticks of a linear axis: 1, 2 or 5 times a power of ten.
fn step(most: f64) -> f64 {
    let rough = most / TICKS;
    let decade = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough).unwrap_or(decade)
}

/// A number with about three digits, and thousands apart.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest = rest.trim_end_matches('0');
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// A number of a tick: short, with k and M.
pub(super) fn tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", number(value / 1e6)),
        size if size >= 1e4 => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values over several decades need a logarithmic axis, others one that begins at zero, so that lengths can be
    /// compared. Round ends and ticks, in both cases.
    #[test]
    fn an_axis_fits_its_values() {
        let log = Axis::for_values([109.0, 10_787.0, f64::NAN], 0.0, 100.0);
        assert!(log.is_log());
        assert_eq!((log.low, log.high), (100.0, 20_000.0));
        assert_eq!(log.ticks(5.0), [100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0]);
        assert_eq!(log.ticks(40.0), [100.0, 1_000.0, 10_000.0]);
        let linear = Axis::for_values([20.0, 79.0], 0.0, 100.0);
        assert!(!linear.is_log());
        assert_eq!(linear.ticks(1.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(linear.at(0.0), 0.0);
        assert!(!Axis::for_values([0.0, 79.0], 0.0, 100.0).is_log(), "zero has no logarithm");
    }

    /// No values, one value or only zeros must not lead to an axis without a length.
    #[test]
    fn an_axis_without_values_has_a_length() {
        for values in [vec![], vec![0.0], vec![f64::NAN], vec![5.0]] {
            let axis = Axis::for_values(values, 10.0, 20.0);
            assert!(axis.high > axis.low && axis.at(0.5).is_finite(), "{axis:?}");
        }
    }

    proptest! {
        /// Positions stay on the axis and keep the order of their values; ticks keep their distance.
        #[test]
        fn positions_keep_the_order(low in 1e-3..1e6f64, times in 1.0..1e6f64, gap in 1.0..60.0f64) {
            let axis = Axis::for_values([low, low * times], 10.0, 210.0);
            let (first, last) = (axis.at(low), axis.at(low * times));
            prop_assert!(first >= 10.0 - 1e-6 && last <= 210.0 + 1e-6 && first <= last + 1e-6, "{:?}", axis);
            let ticks: Vec<f64> = axis.ticks(gap).into_iter().map(|tick| axis.at(tick)).collect();
            prop_assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] >= gap - 1e-6), "{:?} {:?}", axis, ticks);
        }
    }

    /// Numbers are as the documents write them: about three digits, thousands apart.
    #[test]
    fn numbers_are_short() {
        let cases =
            [(8_615.4, "8\u{202f}615"), (0.381, "0.38"), (10.0, "10"), (14.96, "15"), (1.43, "1.43"), (0.0, "0")];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
        assert_eq!([tick(1e7), tick(50_000.0), tick(1_000.0)], ["10M", "50k", "1\u{202f}000"]);
        assert_eq!(number(-1_234_567.0), "-1\u{202f}234\u{202f}567");
        assert_eq!(number(f64::NAN), "?");
    }
}

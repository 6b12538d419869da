//! The first tab: what needs attention, what waits longest, how much there is.

use serde::Deserialize;

use crate::{
    client::{Answer, Error},
    terminal::{Cell, Column, Style, Table, duration},
};

/// The columns of a sparkline.
const SPARK: usize = 30;

#[derive(Deserialize)]
struct Overview {
    attention: Vec<Attention>,
    waiting: Vec<Waiting>,
    amounts: Vec<Amount>,
    rates: Rates,
}

#[derive(Deserialize)]
struct Attention {
    severity: String,
    product: String,
    title: String,
    about: String,
}

#[derive(Deserialize)]
struct Waiting {
    product: String,
    what: String,
    amount: Option<u64>,
    oldest_seconds: f64,
}

#[derive(Deserialize)]
struct Amount {
    product: String,
    what: String,
    amount: u64,
}

/// The last half hour; `None` where nothing is known.
#[derive(Deserialize)]
struct Rates {
    pushed: Vec<Option<f64>>,
    acked: Vec<Option<f64>>,
    failed: Vec<Option<f64>>,
    steps: Vec<Option<f64>>,
    statements: Vec<Option<f64>>,
    wake_p50_ms: Vec<Option<f64>>,
    wake_p99_ms: Vec<Option<f64>>,
}

/// The table of an answer: what is urgent first.
pub(super) fn table(answer: &Answer) -> Result<Table, Error> {
    let overview: Overview = answer.json()?;
    let mut table = Table::new([Column::id("product"), Column::text("what"), Column::number("now"), Column::text("")]);
    if overview.attention.is_empty() {
        table.row([
            Cell::default(),
            Cell::styled("nothing needs attention", Style::Good),
            Cell::default(),
            Cell::default(),
        ]);
    }
    for Attention { severity, product, title, about } in &overview.attention {
        let style = if severity == "bad" { Style::Bad } else { Style::Busy };
        table.row([
            product.as_str().into(),
            Cell::styled(title, style),
            Cell::default(),
            Cell::styled(about, Style::Dim),
        ]);
    }
    for Waiting { product, what, amount, oldest_seconds } in &overview.waiting {
        let oldest = duration(std::time::Duration::try_from_secs_f64(*oldest_seconds).unwrap_or_default());
        let amount = Cell::maybe(*amount);
        table.row([product.as_str().into(), what.as_str().into(), amount, format!("oldest waits for {oldest}").into()]);
    }
    for Amount { product, what, amount } in &overview.amounts {
        table.row([product.as_str().into(), what.as_str().into(), Cell::count(*amount), Cell::default()]);
    }
    let Rates { pushed, acked, failed, steps, statements, wake_p50_ms, wake_p99_ms } = &overview.rates;
    let rates = [
        ("queue", "pushed per second", pushed),
        ("queue", "acknowledged per second", acked),
        ("queue", "failed per second", failed),
        ("flow", "steps claimed per second", steps),
        ("wake", "statements per second", statements),
        ("wake", "wake-up to work, p50 in ms", wake_p50_ms),
        ("wake", "wake-up to work, p99 in ms", wake_p99_ms),
    ];
    for (product, what, series) in rates {
        let now = series.last().copied().flatten().map(|value| format!("{value:.1}"));
        table.row([product.into(), what.into(), Cell::maybe(now), spark(series).into()]);
    }
    Ok(table)
}

/// The last values as bars, relative to the largest.
fn spark(series: &[Option<f64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let last = &series[series.len().saturating_sub(SPARK)..];
    let most = last.iter().flatten().fold(0.0_f64, |most, value| most.max(*value));
    let bar = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if most > 0.0 => BARS[((value / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
    };
    last.iter().map(bar).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bars are relative to the largest value; what is not known is empty.
    #[test]
    fn a_sparkline_is_relative_to_the_largest_value() {
        assert_eq!(spark(&[None, Some(0.0), Some(7.0), Some(14.0)]), " ▁▅█");
        assert_eq!(spark(&[Some(0.0), Some(0.0)]), "▁▁");
        assert_eq!((spark(&[]), spark(&vec![Some(1.0); 99]).chars().count()), (String::new(), SPARK));
    }
}

//! Many jobs, a limited number of them at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::Result;

/// Runs `job` for each number below `count`, `concurrent` of them at a time. Returns their results, grouped by task.
pub(crate) async fn pump<T, F>(
    count: usize,
    concurrent: usize,
    job: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..concurrent.min(count) {
        let (next, job) = (Arc::clone(&next), job.clone());
        tasks.spawn(async move {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return done;
                }
                done.push(job(number).await);
            }
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Separates successes from failures: the successes, the number of failures, and the message of the first.
pub(crate) fn sorted<T>(done: Vec<Result<T>>) -> (Vec<T>, usize, Option<String>) {
    let (mut good, mut failures, mut first) = (Vec::new(), 0, None);
    for one in done {
        match one {
            Ok(one) => good.push(one),
            Err(error) => {
                failures += 1;
                first.get_or_insert_with(|| error.to_string());
            }
        }
    }
    (good, failures, first)
}

/// Numbers from 0 to 1 that are spread evenly however many of them are taken, without a period.
pub(crate) fn spread(number: usize) -> f64 {
    /// The inverse of the golden ratio: the fractions of its multiples are evenly spread.
    const STRIDE: f64 = 0.618_033_988_749_894_8;
    (number as f64 * STRIDE).fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every job runs once, at most `concurrent` run at a time, and failures are counted separately.
    /// The jobs count themselves while they run.
    #[tokio::test]
    async fn every_job_runs_once_and_few_at_a_time() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counting, peak) = (Arc::clone(&now), Arc::clone(&most));
        let job = move |number: usize| {
            let (counting, peak) = (Arc::clone(&counting), Arc::clone(&peak));
            async move {
                peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                counting.fetch_sub(1, Ordering::SeqCst);
                if number == 7 { Err("seven".into()) } else { Ok(number) }
            }
        };
        let (mut good, failures, first) = sorted(pump(10, 3, job).await);
        good.sort_unstable();
        assert_eq!(good, [0, 1, 2, 3, 4, 5, 6, 8, 9]);
        assert_eq!((failures, first.as_deref()), (1, Some("seven")));
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    /// Of ten consecutive numbers at least one lies in each fifth of the range.
    #[test]
    fn spread_leaves_no_gap() {
        for from in 0..100 {
            let mut fifths: Vec<usize> = (from..from + 10).map(|number| (spread(number) * 5.0) as usize).collect();
            fifths.sort_unstable();
            fifths.dedup();
            assert_eq!(fifths, [0, 1, 2, 3, 4], "from {from}");
        }
    }
}

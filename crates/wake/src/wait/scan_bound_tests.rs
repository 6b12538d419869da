//! Which polls scan from where.

use super::*;

/// The first poll makes a full scan, those that follow closely scan from the last claim on, and then one makes a full
/// scan again: the longer it took, the later, up to five seconds and up to four times later than before.
#[tokio::test(start_paused = true)]
async fn expensive_full_scans_are_rare() {
    let bounds = ScanBounds::new();
    for (took_ms, rest_ms) in [(0, 20), (400, 80), (10, 200), (400, 800), (400, 3_200), (400, 5_000), (49, 980)] {
        let first = bounds.begin(&"key", Instant::now());
        assert_eq!(first.bound_us, None);
        tokio::time::advance(Duration::from_millis(took_ms)).await;
        let end = Instant::now();
        assert_eq!(bounds.end(&"key", first, Some(5_000_000), None, end), None, "it was a full scan");

        tokio::time::advance(Duration::from_millis(rest_ms - 5)).await;
        let second = bounds.begin(&"key", Instant::now());
        assert_eq!(second.bound_us, Some(4_800_000));
        let again = bounds.end(&"key", second, Some(6_000_000), None, Instant::now());
        assert_eq!(again, Some(Duration::from_millis(5)), "rows below the bound are found in time");
        tokio::time::advance(Duration::from_millis(4)).await;
        assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, Some(5_800_000));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, None, "after {took_ms} ms");
    }
}

/// A busy group leaves an expensive full scan to the background and then scans once from what that found, also if a
/// poll was running when it was found. A group that is not busy makes the full scan itself, and so does a busy one if
/// the background scan failed.
#[tokio::test(start_paused = true)]
async fn busy_groups_defer_full_scans() {
    let bounds = ScanBounds::new();
    let (claimed, bound, found) = (Some(5_000_000), Some(4_800_000), Some(1_000_000));
    let ms = Duration::from_millis;
    for took in [2, 12, 12] {
        assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "it is not expensive yet");
        let full = bounds.begin(&"key", Instant::now());
        assert_eq!(full.bound_us, None);
        tokio::time::advance(ms(took)).await;
        bounds.end(&"key", full, claimed, None, Instant::now());
        tokio::time::advance(ms(took * 20)).await;
    }
    assert_eq!(bounds.defer_full_scans([&"key", &"other"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "it is deferred already");
    let soon = Instant::now() + ms(100);
    let running = bounds.begin_busy(&"key", soon, Instant::now());
    assert_eq!(running.bound_us, bound);
    tokio::time::advance(ms(40)).await;
    bounds.full_scan_found(&"key", found, ms(40), Instant::now());
    let again = bounds.end(&"key", running, claimed, None, Instant::now());
    assert_eq!(again, Some(Duration::ZERO), "the row was found during this poll");
    tokio::time::advance(ms(1)).await;
    let next = bounds.begin_busy(&"key", soon, Instant::now());
    assert_eq!(next.bound_us, found);
    bounds.end(&"key", next, claimed, None, Instant::now());
    assert_eq!(bounds.begin_busy(&"key", soon, Instant::now()).bound_us, bound);
    assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, None, "not busy");

    tokio::time::advance(ms(240)).await;
    let later = Instant::now() + ms(5_000);
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(bounds.begin_busy(&"key", later, Instant::now()).full_scan_in, Some(ms(800)), "twenty times 40");
    tokio::time::advance(ms(800)).await;
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "it is still running");
    assert_eq!(bounds.begin_busy(&"key", later, Instant::now()).bound_us, bound);
    bounds.full_scan_failed(&"key");
    let itself = bounds.begin_busy(&"key", later, Instant::now());
    assert_eq!(itself.bound_us, None, "the background scan failed");
    bounds.end(&"key", itself, claimed, None, Instant::now());
    tokio::time::advance(ms(800)).await;
    assert_eq!(
        bounds.defer_full_scans([&"key"], Instant::now()).len(),
        0,
        "it took no time, and is no longer expensive"
    );
}

/// An item that was given back has its old due time, below the bound.
#[tokio::test(start_paused = true)]
async fn after_forget_polls_make_full_scans() {
    let bounds = ScanBounds::new();
    let first = bounds.begin(&1, Instant::now());
    bounds.end(&1, first, None, Some(9_000_000), Instant::now());
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, Some(8_800_000));
    bounds.forget();
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, None);
}

/// A poll may have missed an item that was given back while it ran, so its claim is no bound for the next poll.
#[tokio::test(start_paused = true)]
async fn a_poll_that_began_before_forget_sets_no_bound() {
    let bounds = ScanBounds::new();
    let full = bounds.begin(&1, Instant::now());
    bounds.forget();
    assert_eq!(
        bounds.end(&1, full, Some(9_000_000), None, Instant::now()),
        None,
        "it has seen everything that was free before"
    );
    let next = bounds.begin(&1, Instant::now());
    assert_eq!(next.bound_us, None);
    bounds.end(&1, next, Some(9_000_000), None, Instant::now());

    let bounded = bounds.begin(&1, Instant::now());
    assert_eq!(bounded.bound_us, Some(8_800_000));
    bounds.forget();
    assert_eq!(
        bounds.end(&1, bounded, None, Some(9_500_000), Instant::now()),
        Some(Duration::ZERO),
        "it polls again at once"
    );
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, None);
}

/// A claim in a write makes a full scan only while one was cheap within the last second; otherwise it keeps to the bound,
/// and asks for a poll that makes the full scan. Its own duration does not count.
#[tokio::test(start_paused = true)]
async fn a_write_makes_no_expensive_full_scan() {
    let bounds = ScanBounds::new();
    let at = |ms: u64| Instant::now() + Duration::from_millis(ms);
    let end = |scan, now| bounds.end(&"key", scan, Some(5_000_000), None, now);
    let first = bounds.begin_in_write(&"key", at(0));
    assert_eq!(first.bound_us, None, "there is no bound");
    assert_eq!(end(first, at(900)), None);
    let second = bounds.begin_in_write(&"key", at(930));
    assert_eq!(second.bound_us, Some(4_800_000), "no full scan was timed");
    assert_eq!(end(second, at(940)), Some(Duration::from_millis(20)));
    end(bounds.begin(&"key", at(950)), at(951));
    assert_eq!(bounds.begin_in_write(&"key", at(1_000)).bound_us, None, "a cheap one was");
    end(bounds.begin(&"key", at(1_000)), at(1_300));
    assert_eq!(bounds.begin_in_write(&"key", at(2_000)).bound_us, Some(4_800_000), "they are expensive");
}

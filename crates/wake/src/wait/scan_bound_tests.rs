//! When looks read from where.

use super::*;

/// The first look reads everything, those that follow closely from what was claimed on, and then one everything again: the later the longer it
/// takes, but not later than five seconds, nor much later than before.
#[tokio::test(start_paused = true)]
async fn looks_that_cost_much_are_rare() {
    let bounds = ScanBounds::new();
    for (took_ms, rest_ms) in [(0, 20), (400, 80), (10, 200), (400, 800), (400, 3_200), (400, 5_000), (49, 980)] {
        let first = bounds.begin(&"key", Instant::now());
        assert_eq!(first.bound_us, None);
        tokio::time::advance(Duration::from_millis(took_ms)).await;
        let end = Instant::now();
        assert_eq!(bounds.end(&"key", first, Some(5_000_000), None, end), None, "it has seen everything");

        tokio::time::advance(Duration::from_millis(rest_ms - 5)).await;
        let second = bounds.begin(&"key", Instant::now());
        assert_eq!(second.bound_us, Some(4_800_000));
        let again = bounds.end(&"key", second, Some(6_000_000), None, Instant::now());
        assert_eq!(again, Some(Duration::from_millis(5)), "what lies before the floor is looked for in time");
        tokio::time::advance(Duration::from_millis(4)).await;
        assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, Some(5_800_000));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, None, "after {took_ms} ms");
    }
}

/// With a second margin most looks read from there, and from the first as often as it is cheap; whoever has not read everything is told when to.
#[tokio::test(start_paused = true)]
async fn a_second_margin_makes_the_first_rare() {
    let bounds = ScanBounds::short_slack();
    let (claimed, short_slack, wide) = (Some(5_000_000), Some(4_950_000), Some(4_800_000));
    let ms = Duration::from_millis;
    let poll = async |took: u64| {
        let reading = bounds.begin(&"key", Instant::now());
        tokio::time::advance(ms(took)).await;
        (reading.bound_us, bounds.end(&"key", reading, claimed, None, Instant::now()))
    };
    assert_eq!(
        poll(10).await,
        (None, None),
        "it has seen everything: the next after 80 ms, with the first margin after 20"
    );
    assert_eq!(poll(0).await, (short_slack, Some(ms(20))), "before everything, what is within the first margin");
    tokio::time::advance(ms(20)).await;
    assert_eq!(poll(5).await, (wide, Some(ms(60))), "it took long: once more after 80 ms");
    assert_eq!(poll(0).await, (short_slack, Some(ms(55))));
    tokio::time::advance(ms(55)).await;
    assert_eq!(poll(10).await, (None, None), "it counts for the first margin, too");
    tokio::time::advance(ms(79)).await;
    assert_eq!(poll(0).await, (short_slack, Some(ms(1))));
    tokio::time::advance(ms(1)).await;
    assert_eq!(poll(10).await, (wide, Some(ms(120))), "once more after a hundred milliseconds, however long it takes");
    tokio::time::advance(ms(99)).await;
    assert_eq!(poll(0).await, (short_slack, Some(ms(1))));
}

/// Who does not wait has no later look: it reads with the first margin when those who wait read with the second, and everything when it is time.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_reads_with_the_first_margin() {
    let bounds = ScanBounds::short_slack();
    let first = bounds.begin_not_waiting(&"key", Instant::now(), Instant::now());
    assert_eq!(first.bound_us, None);
    bounds.end(&"key", first, Some(5_000_000), None, Instant::now());
    assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, Some(4_950_000));
    assert_eq!(bounds.begin_not_waiting(&"key", Instant::now(), Instant::now()).bound_us, Some(4_800_000));
    tokio::time::advance(REST_SHORTEST).await;
    assert_eq!(bounds.begin_not_waiting(&"key", Instant::now(), Instant::now()).bound_us, None);
}

/// Who is busy leaves it to somebody else to read everything where that takes long, and reads what was found there: once, also if a look was under
/// way when it was found. Who is not busy reads everything itself, and so does everybody if who was to do it could not.
#[tokio::test(start_paused = true)]
async fn who_is_busy_does_not_wait_for_everything() {
    let bounds = ScanBounds::new();
    let (claimed, bound, found) = (Some(5_000_000), Some(4_800_000), Some(1_000_000));
    let ms = Duration::from_millis;
    for took in [2, 12, 12] {
        assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "it is not dear yet");
        let everything = bounds.begin(&"key", Instant::now());
        assert_eq!(everything.bound_us, None);
        tokio::time::advance(ms(took)).await;
        bounds.end(&"key", everything, claimed, None, Instant::now());
        tokio::time::advance(ms(took * 20)).await;
    }
    assert_eq!(bounds.defer_full_scans([&"key", &"other"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "somebody does it already");
    let soon = Instant::now() + ms(100);
    let under_way = bounds.begin_busy(&"key", soon, Instant::now());
    assert_eq!(under_way.bound_us, bound);
    tokio::time::advance(ms(40)).await;
    bounds.full_scan_found(&"key", found, ms(40), Instant::now());
    let again = bounds.end(&"key", under_way, claimed, None, Instant::now());
    assert_eq!(again, Some(Duration::ZERO), "it has not seen what was found meanwhile");
    tokio::time::advance(ms(1)).await;
    let next = bounds.begin_busy(&"key", soon, Instant::now());
    assert_eq!(next.bound_us, found);
    bounds.end(&"key", next, claimed, None, Instant::now());
    assert_eq!(bounds.begin_busy(&"key", soon, Instant::now()).bound_us, bound);
    assert_eq!(bounds.begin(&"key", Instant::now()).bound_us, None, "who is not busy");

    tokio::time::advance(ms(240)).await;
    let later = Instant::now() + ms(5_000);
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(bounds.begin_busy(&"key", later, Instant::now()).next_sweep, Some(ms(800)), "twenty times 40");
    tokio::time::advance(ms(800)).await;
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()), [], "it is under way");
    assert_eq!(bounds.begin_busy(&"key", later, Instant::now()).bound_us, bound);
    bounds.full_scan_failed(&"key");
    let itself = bounds.begin_busy(&"key", later, Instant::now());
    assert_eq!(itself.bound_us, None, "nobody has done it");
    bounds.end(&"key", itself, claimed, None, Instant::now());
    tokio::time::advance(ms(800)).await;
    assert_eq!(bounds.defer_full_scans([&"key"], Instant::now()).len(), 0, "it took no time, and is not dear any more");
}

/// An abandoned item lies in its old place, before the floor.
#[tokio::test(start_paused = true)]
async fn forgotten_floors_bound_nothing() {
    let bounds = ScanBounds::new();
    let first = bounds.begin(&1, Instant::now());
    bounds.end(&1, first, None, Some(9_000_000), Instant::now());
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, Some(8_800_000));
    bounds.forget();
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, None);
}

/// What was abandoned during a look may have been missed by it, so what the look found is no floor for the next.
#[tokio::test(start_paused = true)]
async fn a_look_that_was_under_way_sets_no_floor_that_was_forgotten() {
    let bounds = ScanBounds::new();
    let everything = bounds.begin(&1, Instant::now());
    bounds.forget();
    assert_eq!(
        bounds.end(&1, everything, Some(9_000_000), None, Instant::now()),
        None,
        "it has seen everything that rang before"
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
        "it looks again at once"
    );
    assert_eq!(bounds.begin(&1, Instant::now()).bound_us, None);
}

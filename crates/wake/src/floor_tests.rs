//! When looks read from where.

use super::*;

/// The first look reads everything, those that follow closely from what was claimed on, and then one everything again: the later the longer it
/// takes, but not later than five seconds, nor much later than before.
#[tokio::test(start_paused = true)]
async fn looks_that_cost_much_are_rare() {
    let floors = Floors::new();
    for (took_ms, rest_ms) in [(0, 20), (400, 80), (10, 200), (400, 800), (400, 3_200), (400, 5_000), (49, 980)] {
        let first = floors.begin(&"key", Instant::now());
        assert_eq!(first.floor_us, None);
        tokio::time::advance(Duration::from_millis(took_ms)).await;
        let end = Instant::now();
        assert_eq!(floors.end(&"key", first, Some(5_000_000), None, end), None, "it has seen everything");

        tokio::time::advance(Duration::from_millis(rest_ms - 5)).await;
        let second = floors.begin(&"key", Instant::now());
        assert_eq!(second.floor_us, Some(4_800_000));
        let again = floors.end(&"key", second, Some(6_000_000), None, Instant::now());
        assert_eq!(again, Some(Duration::from_millis(5)), "what lies before the floor is looked for in time");
        tokio::time::advance(Duration::from_millis(4)).await;
        assert_eq!(floors.begin(&"key", Instant::now()).floor_us, Some(5_800_000));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(floors.begin(&"key", Instant::now()).floor_us, None, "after {took_ms} ms");
    }
}

/// With a second margin most looks read from there, and from the first as often as it is cheap; whoever has not read everything is told when to.
#[tokio::test(start_paused = true)]
async fn a_second_margin_makes_the_first_rare() {
    let floors = Floors::narrow();
    let (claimed, narrow, wide) = (Some(5_000_000), Some(4_950_000), Some(4_800_000));
    let ms = Duration::from_millis;
    let look = async |took: u64| {
        let reading = floors.begin(&"key", Instant::now());
        tokio::time::advance(ms(took)).await;
        (reading.floor_us, floors.end(&"key", reading, claimed, None, Instant::now()))
    };
    assert_eq!(
        look(10).await,
        (None, None),
        "it has seen everything: the next after 80 ms, with the first margin after 20"
    );
    assert_eq!(look(0).await, (narrow, Some(ms(20))), "before everything, what is within the first margin");
    tokio::time::advance(ms(20)).await;
    assert_eq!(look(5).await, (wide, Some(ms(60))), "it took long: once more after 80 ms");
    assert_eq!(look(0).await, (narrow, Some(ms(55))));
    tokio::time::advance(ms(55)).await;
    assert_eq!(look(10).await, (None, None), "it counts for the first margin, too");
    tokio::time::advance(ms(79)).await;
    assert_eq!(look(0).await, (narrow, Some(ms(1))));
    tokio::time::advance(ms(1)).await;
    assert_eq!(look(10).await, (wide, Some(ms(120))), "once more after a hundred milliseconds, however long it takes");
    tokio::time::advance(ms(99)).await;
    assert_eq!(look(0).await, (narrow, Some(ms(1))));
}

/// Who does not wait has no later look: it reads with the first margin when those who wait read with the second, and everything when it is time.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_reads_with_the_first_margin() {
    let floors = Floors::narrow();
    let first = floors.begin_at_once(&"key", Instant::now(), Instant::now());
    assert_eq!(first.floor_us, None);
    floors.end(&"key", first, Some(5_000_000), None, Instant::now());
    assert_eq!(floors.begin(&"key", Instant::now()).floor_us, Some(4_950_000));
    assert_eq!(floors.begin_at_once(&"key", Instant::now(), Instant::now()).floor_us, Some(4_800_000));
    tokio::time::advance(REST_SHORTEST).await;
    assert_eq!(floors.begin_at_once(&"key", Instant::now(), Instant::now()).floor_us, None);
}

/// Who is busy leaves it to somebody else to read everything where that takes long, and reads what was found there: once, also if a look was under
/// way when it was found. Who is not busy reads everything itself, and so does everybody if who was to do it could not.
#[tokio::test(start_paused = true)]
async fn who_is_busy_does_not_wait_for_everything() {
    let floors = Floors::new();
    let (claimed, floor, found) = (Some(5_000_000), Some(4_800_000), Some(1_000_000));
    let ms = Duration::from_millis;
    for took in [2, 12, 12] {
        assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "it is not dear yet");
        let everything = floors.begin(&"key", Instant::now());
        assert_eq!(everything.floor_us, None);
        tokio::time::advance(ms(took)).await;
        floors.end(&"key", everything, claimed, None, Instant::now());
        tokio::time::advance(ms(took * 20)).await;
    }
    assert_eq!(floors.leave_behind([&"key", &"other"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "somebody does it already");
    let soon = Instant::now() + ms(100);
    let under_way = floors.begin_busy(&"key", soon, Instant::now());
    assert_eq!(under_way.floor_us, floor);
    tokio::time::advance(ms(40)).await;
    floors.found_behind(&"key", found, ms(40), Instant::now());
    let again = floors.end(&"key", under_way, claimed, None, Instant::now());
    assert_eq!(again, Some(Duration::ZERO), "it has not seen what was found meanwhile");
    tokio::time::advance(ms(1)).await;
    let next = floors.begin_busy(&"key", soon, Instant::now());
    assert_eq!(next.floor_us, found);
    floors.end(&"key", next, claimed, None, Instant::now());
    assert_eq!(floors.begin_busy(&"key", soon, Instant::now()).floor_us, floor);
    assert_eq!(floors.begin(&"key", Instant::now()).floor_us, None, "who is not busy");

    tokio::time::advance(ms(240)).await;
    let later = Instant::now() + ms(5_000);
    assert_eq!(floors.leave_behind([&"key"], Instant::now()), [("key", 4_800_000)]);
    assert_eq!(floors.begin_busy(&"key", later, Instant::now()).next_sweep, Some(ms(800)), "twenty times 40");
    tokio::time::advance(ms(800)).await;
    assert_eq!(floors.leave_behind([&"key"], Instant::now()), [], "it is under way");
    assert_eq!(floors.begin_busy(&"key", later, Instant::now()).floor_us, floor);
    floors.not_read(&"key");
    let itself = floors.begin_busy(&"key", later, Instant::now());
    assert_eq!(itself.floor_us, None, "nobody has done it");
    floors.end(&"key", itself, claimed, None, Instant::now());
    tokio::time::advance(ms(800)).await;
    assert_eq!(floors.leave_behind([&"key"], Instant::now()).len(), 0, "it took no time, and is not dear any more");
}

/// An abandoned item lies in its old place, before the floor.
#[tokio::test(start_paused = true)]
async fn forgotten_floors_bound_nothing() {
    let floors = Floors::new();
    let first = floors.begin(&1, Instant::now());
    floors.end(&1, first, None, Some(9_000_000), Instant::now());
    assert_eq!(floors.begin(&1, Instant::now()).floor_us, Some(8_800_000));
    floors.forget();
    assert_eq!(floors.begin(&1, Instant::now()).floor_us, None);
}

/// What was abandoned during a look may have been missed by it, so what the look found is no floor for the next.
#[tokio::test(start_paused = true)]
async fn a_look_that_was_under_way_sets_no_floor_that_was_forgotten() {
    let floors = Floors::new();
    let everything = floors.begin(&1, Instant::now());
    floors.forget();
    assert_eq!(
        floors.end(&1, everything, Some(9_000_000), None, Instant::now()),
        None,
        "it has seen everything that rang before"
    );
    let next = floors.begin(&1, Instant::now());
    assert_eq!(next.floor_us, None);
    floors.end(&1, next, Some(9_000_000), None, Instant::now());

    let bounded = floors.begin(&1, Instant::now());
    assert_eq!(bounded.floor_us, Some(8_800_000));
    floors.forget();
    assert_eq!(
        floors.end(&1, bounded, None, Some(9_500_000), Instant::now()),
        Some(Duration::ZERO),
        "it looks again at once"
    );
    assert_eq!(floors.begin(&1, Instant::now()).floor_us, None);
}

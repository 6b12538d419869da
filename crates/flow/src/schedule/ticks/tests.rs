//! Properties of ticks without a database.

use proptest::prelude::*;
use time::macros::datetime;

use super::*;

const ZONES: &[&str] =
    &["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kathmandu"];

fn ticks(text: &str, of: &str) -> Ticks {
    Ticks::cron(text, zone(of).expect(of)).expect(text)
}

/// The first ticks after a time, in UTC.
fn few(text: &str, of: &str, after: OffsetDateTime, count: usize) -> Vec<String> {
    let ticks = ticks(text, of);
    let all = std::iter::successors(ticks.after(after), |tick| ticks.after(*tick));
    all.take(count).map(|tick| format!("{:02} {:02}:{:02}", tick.day(), tick.hour(), tick.minute())).collect()
}

/// When local time skips from 02:00 to 03:00, a listed time in between occurs at the end of the gap, several occur as
/// one, and no day is without one. Other expressions do not occur in the gap.
#[test]
fn a_listed_time_that_is_skipped_occurs_after_the_gap() {
    // Berlin: 29 March 2026, 01:00 UTC.
    let eve = datetime!(2026-03-28 12:00 UTC);
    assert_eq!(few("30 2 * * *", "Europe/Berlin", eve, 3), ["29 01:00", "30 00:30", "31 00:30"]);
    assert_eq!(few("0 2,14 * * *", "Europe/Berlin", eve, 4), ["28 13:00", "29 01:00", "29 12:00", "30 00:00"]);
    assert_eq!(few("0,30 2 * * *", "Europe/Berlin", eve, 3), ["29 01:00", "30 00:00", "30 00:30"]);
    assert_eq!(few("30 2,3 * * *", "Europe/Berlin", eve, 3), ["29 01:00", "29 01:30", "30 00:30"]);
    let before = datetime!(2026-03-29 00:00 UTC);
    assert_eq!(few("30 * * * *", "Europe/Berlin", before, 3), ["29 00:30", "29 01:30", "29 02:30"]);
    assert_eq!(few("*/30 2 * * *", "Europe/Berlin", before, 2), ["30 00:00", "30 00:30"]);
    // New York: 8 March 2026, 07:00 UTC.
    assert_eq!(few("15 2 * * *", "America/New_York", datetime!(2026-03-07 12:00 UTC), 2), ["08 07:00", "09 06:15"]);
    // Samoa had no 30 December 2011: local time skipped it at 10:00 UTC.
    assert_eq!(few("0 6 30 12 *", "Pacific/Apia", datetime!(2011-12-01 00:00 UTC), 1), ["30 10:00"]);
}

/// When local time goes back from 03:00 to 02:00, a listed time in between occurs once, the first time. Other
/// expressions occur twice.
#[test]
fn a_listed_time_that_is_repeated_occurs_once() {
    // Berlin: 25 October 2026, 01:00 UTC.
    let eve = datetime!(2026-10-24 12:00 UTC);
    assert_eq!(few("30 2 * * *", "Europe/Berlin", eve, 3), ["25 00:30", "26 01:30", "27 01:30"]);
    assert_eq!(few("0,30 2 * * *", "Europe/Berlin", eve, 3), ["25 00:00", "25 00:30", "26 01:00"]);
    let between = datetime!(2026-10-25 01:10 UTC);
    assert_eq!(few("30 2 * * *", "Europe/Berlin", between, 1), ["26 01:30"], "asked while the clock shows it again");
    let before = datetime!(2026-10-24 23:00 UTC);
    assert_eq!(few("30 * * * *", "Europe/Berlin", before, 4), ["24 23:30", "25 00:30", "25 01:30", "25 02:30"]);
    assert_eq!(
        few("*/30 2 * * *", "Europe/Berlin", before, 5),
        ["25 00:00", "25 00:30", "25 01:00", "25 01:30", "26 01:00"]
    );
    // Lord Howe goes back by half an hour: 5 April 2026, 15:00 UTC of the day before.
    assert_eq!(
        few("45 * * * *", "Australia/Lord_Howe", datetime!(2026-04-04 14:00 UTC), 3),
        ["04 14:45", "04 15:15", "04 16:15"]
    );
}

/// An expression whose days do not exist is rejected without a search, and every other one occurs within 40 years, so
/// no search is longer. The rarest day is a 29 February on a given weekday; 2100 is not a leap year.
#[test]
fn a_search_is_bounded() {
    for never in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "*/5 * 30,31 2 *", "0 0 31 4 +1", "0 0 1 * +MON#2"] {
        assert_eq!(Ticks::cron(never, TimeZone::UTC).expect_err(never), "names a day that does not exist", "{never}");
    }
    for start in [datetime!(2026-01-02 12:00 UTC), datetime!(2072-03-01 00:00 UTC), datetime!(2096-03-01 00:00 UTC)] {
        for weekday in 0..7 {
            let next = ticks(&format!("0 0 29 2 +{weekday}"), "UTC").after(start).expect("a tick");
            assert!(next.year() - start.year() <= 40, "{weekday}: from {start} to {next}");
        }
    }
    // Every tick is in the hour that local time skips.
    assert_eq!(ticks("*/15 2 * 3 0L", "Europe/Berlin").after(datetime!(2026-01-02 12:00 UTC)), None);
}

/// Five fields, six with seconds, and the names of common expressions; invalid expressions are rejected with a reason.
#[test]
fn expressions() {
    let noon = datetime!(2026-01-02 12:00 UTC);
    let next = |text: &str| ticks(text, "UTC").after(noon).expect("a tick");
    assert_eq!(next("*/5 * * * *"), datetime!(2026-01-02 12:05 UTC));
    assert_eq!(next("*/5 * * * * *"), datetime!(2026-01-02 12:00:05 UTC));
    assert_eq!(next("@daily"), datetime!(2026-01-03 00:00 UTC));
    assert_eq!(next("0 9 * * MON-FRI"), datetime!(2026-01-05 09:00 UTC));
    assert_eq!(next("0 0 L * *"), datetime!(2026-01-31 00:00 UTC));
    assert_eq!(next("0 0 * * FRI#2"), datetime!(2026-01-09 00:00 UTC));
    for wrong in
        ["", "* * * *", "60 * * * *", "0 0 1 1 * 2030", "0 0 0 1 1 * 2030", "@reboot", "5/5 * * * *", "*/0 * * * *"]
    {
        let error = Ticks::cron(wrong, TimeZone::UTC).expect_err(wrong);
        assert!(error.contains("invalid cron expression "), "{error}");
    }
    let error = Ticks::cron(&"1,".repeat(300), TimeZone::UTC).expect_err("long");
    assert!(error.contains("got 600"), "{error}");
    assert_eq!(zone("europe/berlin").expect("a zone").iana_name(), Some("Europe/Berlin"));
    for wrong in ["", "Mars/Olympus", "+02:00", "CEST", "../etc/passwd"] {
        zone(wrong).expect_err(wrong);
    }
}

/// Many missed ticks cost as much as one: every second for thirty years.
#[test]
fn many_missed_ticks_are_planned_at_once() {
    let every = ticks("* * * * * *", "Europe/Berlin");
    let (from, now) = (datetime!(1996-01-01 00:00 UTC), datetime!(2026-06-01 00:00:00.5 UTC));
    let plan = |missed| every.plan(missed, from, now, Duration::from_secs(1));
    let (last, next) = (datetime!(2026-06-01 00:00 UTC), datetime!(2026-06-01 00:00:01 UTC));
    assert_eq!(plan(Missed::Skip), Plan { run: vec![last], next: Some(next) });
    assert_eq!(plan(Missed::Latest), Plan { run: vec![last], next: Some(next) });
    assert_eq!(plan(Missed::All).run.len(), TICKS_MAX);
    let hourly = ticks("@hourly", "Europe/Berlin");
    let plan = hourly.plan(Missed::Latest, from, datetime!(2026-06-01 00:59 UTC), Duration::from_secs(60));
    assert_eq!(plan, Plan { run: vec![last], next: Some(datetime!(2026-06-01 01:00 UTC)) });
}

/// A single time: late, missed, or still to come.
#[test]
fn once() {
    let at = datetime!(2026-01-02 12:00:00.25 UTC);
    let once = Ticks::Once(at);
    let plan = |missed, late: u64| once.plan(missed, at, at + Duration::from_secs(late), Duration::from_secs(60));
    let (ran, over) = (Plan { run: vec![at], next: None }, Plan { run: vec![], next: None });
    for missed in [Missed::Skip, Missed::Latest, Missed::All] {
        assert_eq!(plan(missed, 59), ran);
        assert_eq!(plan(missed, 60), if missed == Missed::Skip { over.run.clone() } else { vec![at] }.into());
        let early = once.plan(missed, at, at - Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(early, Plan { run: vec![], next: Some(at) });
    }
}

impl From<Vec<OffsetDateTime>> for Plan {
    fn from(run: Vec<OffsetDateTime>) -> Plan {
        Plan { run, next: None }
    }
}

fn field(most: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (1..most).prop_map(|step| format!("*/{step}")),
        prop::collection::vec(0..most, 1..4).prop_map(|list| list
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")),
    ]
}

/// A few hours around changes of daylight saving time, in all zones but two, or any time.
fn around() -> impl Strategy<Value = OffsetDateTime> {
    let days = prop::sample::select(vec![
        datetime!(2026-03-29 00:00 UTC),
        datetime!(2026-10-25 00:00 UTC),
        datetime!(2026-03-08 06:00 UTC),
        datetime!(2026-11-01 05:00 UTC),
        datetime!(2026-04-04 14:00 UTC),
        datetime!(2026-10-03 15:00 UTC),
        datetime!(2026-04-23 21:00 UTC),
        datetime!(2026-10-29 20:00 UTC),
    ]);
    prop_oneof![
        4 => (days, -90_000_i64..20_000).prop_map(|(day, off)| day + time::Duration::seconds(off)),
        1 => (1_500_000_000_i64..2_000_000_000).prop_map(|at| OffsetDateTime::from_unix_timestamp(at).expect("a time")),
    ]
}

fn some() -> impl Strategy<Value = Ticks> {
    let fields = (prop::option::of(field(60)), field(60), field(24), prop::sample::select(ZONES));
    fields.prop_map(|(second, minute, hour, zone)| {
        let second = second.map(|second| second + " ").unwrap_or_default();
        ticks(&format!("{second}{minute} {hour} * * *"), zone)
    })
}

proptest! {
    /// The next tick is later, and it is the next of every time before it.
    #[test]
    fn ticks_strictly_increase(ticks in some(), start in around(), part in 0.0..1.0_f64) {
        let mut after = start;
        for _ in 0..20 {
            let tick = ticks.after(after).expect("a tick");
            prop_assert!(tick > after, "{tick} is not after {after}");
            let between = after + (tick - after) * part;
            prop_assert_eq!(ticks.after(between.min(tick - time::Duration::SECOND)), Some(tick));
            after = tick;
        }
    }

    /// A listed time of day occurs once on every day.
    #[test]
    fn a_listed_time_occurs_every_day(hour in 0..24_u8, minute in 0..60_u8, name in prop::sample::select(ZONES), start in around()) {
        let ticks = ticks(&format!("{minute} {hour} * * *"), name);
        let zone = zone(name).expect("a zone");
        let day = |tick: OffsetDateTime| civil(&zone, Timestamp::from_second(tick.unix_timestamp()).expect("a time")).date();
        let mut last = ticks.after(start).expect("a tick");
        for _ in 0..5 {
            let next = ticks.after(last).expect("a tick");
            prop_assert_eq!(day(next), day(last).tomorrow().expect("a day"));
            last = next;
        }
    }

    /// However often due ticks are run: `all` runs each tick once and in order, `skip` exactly those that are not missed,
    /// `latest` the same, or one missed tick.
    #[test]
    fn each_policy_runs_its_ticks(ticks in some(), start in around(), steps in prop::collection::vec(1..4_000_i64, 1..6), grace in 1..600_u64) {
        let grace = Duration::from_secs(grace);
        let first = ticks.after(start).expect("a tick");
        for missed in [Missed::Skip, Missed::Latest, Missed::All] {
            let (mut next, mut now) = (first, first);
            for step in &steps {
                now += time::Duration::milliseconds(step * 1_234);
                // Repeat until no tick is due, as a server does.
                let mut due = Vec::new();
                let mut tick = Some(next);
                while let Some(at) = tick.filter(|at| *at <= now && due.len() < 300) {
                    due.push(at);
                    tick = ticks.after(at);
                }
                if due.len() == 300 {
                    // Too many ticks for this test.
                    break;
                }
                let mut run = Vec::new();
                while next <= now {
                    let plan = ticks.plan(missed, next, now, grace);
                    prop_assert!(plan.run.len() <= TICKS_MAX);
                    run.extend(plan.run);
                    next = plan.next.expect("a tick");
                }
                prop_assert!(next > now);
                prop_assert_eq!(Some(next), ticks.after(now));
                let timely: Vec<_> = due.iter().copied().filter(|tick| now - *tick < grace).collect();
                match missed {
                    Missed::All => prop_assert_eq!(run, due),
                    Missed::Latest if timely.is_empty() => prop_assert_eq!(run, due.last().copied().into_iter().collect::<Vec<_>>()),
                    _ => prop_assert_eq!(run, timely),
                }
            }
        }
    }
}

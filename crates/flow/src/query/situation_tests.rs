use super::*;

fn template() -> Template {
    let text = "{name: t, namespace_name: shop, steps: [{name: a}, {name: b}, {name: c, dependencies: [a, b]}]}";
    Template::parse(text, None).expect("a template")
}

fn step(slot: usize, state: StepState) -> OpenStep {
    OpenStep { slot, part: None, state: Some(state), attempt: 0, worker: None, due_at: None, sent: false }
}

fn situation(template: &Template, steps: Vec<OpenStep>) -> Situation<'_> {
    let open = steps.iter().enumerate().map(|(index, step)| (step.slot, index)).collect();
    Situation {
        template,
        ended: None,
        failed: false,
        mode: Mode::EventDriven,
        poll_ms: 1_000,
        provider: Provider::Table,
        limits: Vec::new(),
        steps,
        open,
    }
}

/// What is said of the first of these steps.
fn said(situation: &Situation<'_>, claimers: Claimers) -> (WaitReason, String) {
    let why = situation.reason(&situation.steps[0], claimers);
    (why.reason, why.sentence)
}

/// A ready step names the first thing that holds it back: shadow mode, a limit, the lack of a worker.
#[test]
fn a_ready_step_says_what_holds_it_back() {
    let template = template();
    let mut now = situation(&template, vec![step(0, StepState::Enqueued)]);
    let one = Claimers { waiting: 1, last: None };
    assert_eq!(said(&now, one), (WaitReason::Claim, "Ready, and a worker waits for it.".to_owned()));
    let (reason, sentence) = said(&now, Claimers::default());
    assert_eq!(reason, WaitReason::Worker);
    assert_eq!(sentence, "Ready, but no worker asks this server for steps named \"a\" of namespace \"shop\".");
    let busy = Claimers { waiting: 0, last: Some(Duration::from_secs(3)) };
    assert!(said(&now, busy).1.contains("3 s ago"));
    now.limits.push(Limit { namespace: "shop".to_owned(), step: None, max_in_progress: 2, in_progress: 2 });
    let (reason, sentence) = said(&now, one);
    assert_eq!(reason, WaitReason::Limit);
    assert_eq!(sentence, "The limit of namespace \"shop\" is reached: 2 of 2 steps are in progress.");
    now.mode = Mode::Shadow;
    assert_eq!(said(&now, one).0, WaitReason::Shadow);
    now.failed = true;
    assert_eq!(said(&now, one).0, WaitReason::FailedTask);
}

/// A pending step names its open dependencies; complete ones are not among the open steps.
#[test]
fn a_pending_step_names_its_open_dependencies() {
    let template = template();
    let both = situation(
        &template,
        vec![step(2, StepState::Pending), step(0, StepState::Enqueued), step(1, StepState::InProgress)],
    );
    let (reason, sentence) = said(&both, Claimers::default());
    assert_eq!(
        (reason, sentence.as_str()),
        (WaitReason::Dependencies, "It waits for step \"a\" (ready) and one more.")
    );
    assert_eq!(both.reason(&both.steps[0], Claimers::default()).waits_for.len(), 2);
    let one = situation(&template, vec![step(2, StepState::Pending), step(1, StepState::InProgress)]);
    assert_eq!(said(&one, Claimers::default()).1, "It waits for step \"b\" (in progress).");
}

/// A step that waits for a retry, and one that a worker holds, say until when.
#[test]
fn a_retry_and_a_lease_have_a_time() {
    let template = template();
    let at = OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(1_500);
    for (state, expected) in
        [(StepState::WaitingForRetry, WaitReason::Retry), (StepState::InProgress, WaitReason::Attempt)]
    {
        let timed = OpenStep { due_at: Some(at), worker: Some("w".to_owned()), attempt: 1, ..step(0, state) };
        let now = situation(&template, vec![timed]);
        let why = now.reason(&now.steps[0], Claimers::default());
        assert_eq!((why.reason, why.until), (expected, Some(at)));
        assert!(why.sentence.contains("1970-01-01T00:00:01Z"), "{}", why.sentence);
    }
}

use super::*;

const ORDER: &str = r#"
name: fulfil
namespace_name: shop
version: 1.2.0
description: An order from the click to the parcel
identity_strategy: caller_provided
lifecycle:
  max_duration_minutes: 90
  staleness_action: alert
input_schema:
  type: object
  required: [order]
steps:
  - name: check
    handler: {callable: Shop::Check, initialization: {limit: 10}}
    retry: {max_attempts: 5, backoff: fibonacci, backoff_base_ms: 200, max_backoff_ms: 3000, jitter: 0.5}
    timeout_seconds: 1.5
    result_schema: {type: object}
  - name: route
    type: decision
    dependencies: [check]
  - name: ship
    dependencies: [route]
    publishes_events: [{name: order.shipped}, {name: order.lost, condition: failure}]
  - name: refund
    dependencies: [route]
  - name: tell
    type: deferred_convergence
    dependencies: [ship, refund]
  - name: archive
    dependencies: [check]
    retry: {retryable: false}
environments:
  test:
    steps:
      - name: check
        timeout_seconds: 9
        retry: {max_attempts: 1}
        handler: {initialization: {limit: 1}}
"#;

fn faults(text: &str) -> Vec<String> {
    Template::parse(text, None).expect_err("it has faults").iter().map(Fault::to_string).collect()
}

/// A template with everything in it means what it says, and what it does not say has its usual value.
#[test]
fn everything_that_is_said_counts() {
    let template = Template::parse(ORDER, None).expect("a template");
    let named = (template.namespace.as_str(), template.name.as_str(), template.version.as_str());
    assert_eq!(named, ("shop", "fulfil", "1.2.0"));
    assert_eq!(template.identity_strategy, IdentityStrategy::CallerProvided);
    assert_eq!(template.lifecycle.max_duration_minutes, Some(90.0));
    assert_eq!(template.lifecycle.staleness_action, StalenessAction::Alert);
    let check = &template.steps[0];
    assert_eq!((check.handler.callable.as_str(), &check.handler.initialization["limit"]), ("Shop::Check", &10.into()));
    let Retry { max_attempts, backoff, backoff_base_ms, max_backoff_ms, jitter, retryable } = check.retry;
    assert_eq!((max_attempts, backoff, backoff_base_ms, max_backoff_ms), (5, Backoff::Fibonacci, 200, 3_000));
    assert_eq!((retryable, jitter, check.timeout), (true, 0.5, Some(Duration::from_millis(1_500))));
    let ship = &template.steps[2];
    assert_eq!(ship.handler.callable, "ship", "a step without a handler is its own");
    let when: Vec<PublishWhen> = ship.publishes_events.iter().map(|event| event.condition).collect();
    assert_eq!(when, [PublishWhen::Success, PublishWhen::Failure]);
    assert!(!template.steps[5].retry.retryable);
    let graph: Vec<_> = template.steps.iter().map(|step| (step.parents.as_slice(), step.children.as_slice())).collect();
    let expected: [(&[usize], &[usize]); 6] =
        [(&[], &[1, 5]), (&[0], &[2, 3]), (&[1], &[4]), (&[1], &[4]), (&[2, 3], &[]), (&[0], &[])];
    assert_eq!(graph, expected);
}

/// What comes to be by a decision is not there from the start; what does not depend on one is.
#[test]
fn what_a_decision_makes_is_absent() {
    let template = Template::parse(ORDER, None).expect("a template");
    let absent: Vec<&str> = template.steps.iter().filter(|step| step.absent).map(|step| step.name.as_str()).collect();
    assert_eq!(absent, ["ship", "refund", "tell"]);
}

/// An environment changes what it names, and nothing else; another one changes nothing.
#[test]
fn an_environment_changes_what_it_names() {
    let usual = Template::parse(ORDER, Some("production")).expect("a template");
    assert_eq!(usual, Template::parse(ORDER, None).expect("a template"));
    let test = Template::parse(ORDER, Some("test")).expect("a template");
    let check = &test.steps[0];
    assert_eq!((check.timeout, check.retry.max_attempts), (Some(Duration::from_secs(9)), 1));
    assert_eq!(check.retry.backoff, Backoff::Fibonacci, "as it was");
    assert_eq!((check.handler.callable.as_str(), &check.handler.initialization["limit"]), ("Shop::Check", &1.into()));
    assert_eq!(test.steps[1..], usual.steps[1..]);
}

/// What was checked can be written down and read again, and is the same: that is how it is kept.
#[test]
fn a_template_survives_being_kept() {
    for text in [ORDER, BATCHES] {
        let template = Template::parse(text, Some("test")).expect("a template");
        let kept = serde_json::to_string(&template).expect("JSON");
        assert_eq!(Template::parse(&kept, None).expect("what was kept"), template);
    }
}

const BATCHES: &str = r#"{
  "name": "import",
  "steps": [
    {"name": "split", "type": "batchable", "batch_config": {"worker_template": "rows", "failure_strategy": "isolate", "batch_size": 100}},
    {"name": "rows", "type": "batch_worker", "dependencies": ["split"]},
    {"name": "sum", "type": "deferred_convergence", "dependencies": ["rows"]}
  ]
}"#;

/// JSON is read like YAML; what is said of batches beside what the engine knows is kept for the handler.
#[test]
fn batches_are_read_from_json() {
    let template = Template::parse(BATCHES, None).expect("a template");
    assert_eq!((template.namespace.as_str(), template.version.as_str()), ("default", "1.0.0"));
    let config = template.steps[0].batch_config.as_ref().expect("batches");
    assert_eq!((config.failure_strategy, &config.hints["batch_size"]), (FailureStrategy::Isolate, &100.into()));
    assert_eq!(template.steps.iter().map(|step| step.absent).collect::<Vec<_>>(), [false, true, true]);
}

/// A cycle is named in full, at the line where it is written.
#[test]
fn a_cycle_is_named_with_its_line() {
    let text = "name: t\nsteps:\n- name: a\n- name: b\n  dependencies: [a, d]\n- name: c\n  dependencies: [b]\n- name: d\n  dependencies: [c]\n";
    assert_eq!(
        faults(text),
        ["line 5, column 21: steps depend on each other in a circle: b depends on d depends on c depends on b"]
    );
    let alone = faults("name: t\nsteps:\n- {name: a, dependencies: [a]}\n");
    assert_eq!(alone, ["line 3, column 28: steps depend on each other in a circle: a depends on a"]);
}

/// Everything that is wrong is told at once, in the order of the text, each with its line.
#[test]
fn all_faults_are_told_with_their_lines() {
    let text = r#"
name: ""
identity_strategy: sometimes
input_schema: {type: 12}
lifecycle: {max_duration_minutes: 0}
steps:
  - name: a
    type: odd
    timeout_seconds: -1
    retry: {max_attempts: 0, backoff: slow, jitter: 2}
  - name: b
    dependencies: [a, x, a]
  - name: b
    publishes_events: [{name: e, condition: never}]
environments:
  test: {steps: [{name: y}]}
"#;
    let faults = faults(text);
    let expected = [
        (2, "a template must have a name"),
        (3, "\"sometimes\" is not an identity_strategy; it must be one of strict, caller_provided, always_unique"),
        (4, "the input_schema is no JSON Schema"),
        (5, "max_duration_minutes is 0; it must be more than 0"),
        (8, "\"odd\" is not a type of step"),
        (9, "timeout_seconds is -1"),
        (10, "max_attempts is 0; it must be between 1 and 1000"),
        (10, "\"slow\" is not a backoff"),
        (10, "jitter is 2; it must be between 0 and 1"),
        (12, "step \"b\" depends on \"x\", which is no step"),
        (12, "step \"b\" depends on \"a\" twice"),
        (13, "step \"b\" is there twice: also in line 11"),
        (14, "\"never\" is not a condition"),
        (16, "there is no step \"y\" to change"),
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, (line, what)) in faults.iter().zip(expected) {
        assert!(fault.starts_with(&format!("line {line}, ")) && fault.contains(what), "{fault} is not {what}");
    }
}

/// What each kind of step needs around it is asked for.
#[test]
fn kinds_that_miss_something_are_faults() {
    for (steps, what) in [
        ("[{name: a, type: decision}]", "decides, and no step depends on it"),
        ("[{name: a, type: deferred_convergence}]", "depends on no step"),
        ("[{name: a, type: batchable}]", "has no batch_config"),
        ("[{name: a, type: batch_worker}]", "must depend on one step, of the type batchable"),
        ("[{name: a, batch_config: {worker_template: b}}, {name: b}]", "is not batchable"),
        ("[{name: a, type: batchable, batch_config: {}}]", "names no worker_template"),
        (
            "[{name: a, type: batchable, batch_config: {worker_template: b}}, {name: b, dependencies: [a]}]",
            "which is no batch_worker that depends on it",
        ),
        (
            "[{name: a, type: batchable, batch_config: {worker_template: b}}, {name: b, type: batch_worker, dependencies: [a]}, {name: b_001}]",
            "is called like a part of",
        ),
        (
            "[{name: a, type: batchable, batch_config: {worker_template: b}}, {name: b, type: batch_worker, dependencies: [a]}, {name: c, type: batch_worker, dependencies: [a]}]",
            "whose worker_template it is",
        ),
    ] {
        let faults = faults(&format!("name: t\nsteps: {steps}\n"));
        assert!(faults.iter().any(|fault| fault.contains(what)), "{what} is not in {faults:?}");
    }
}

/// What is no template at all says where it goes wrong; so does a word that is not known, and a text that explodes is refused.
#[test]
fn what_cannot_be_read_says_where() {
    for (text, line, what) in [
        ("name: t\nsteps:\n- name: a\n  retry: 7\n", 4, ""),
        ("name: t\nsteps:\n- name: a\n  retires: {}\n", 4, "retires"),
        ("name: [\n", 1, ""),
        ("steps: []\n", 1, "name"),
        ("name: t\nname: u\n", 2, "name"),
    ] {
        let faults = Template::parse(text, None).expect_err(text);
        let fault = faults.iter().next().expect("a fault");
        assert_eq!(fault.line, line, "{text:?}: {fault}");
        assert!(fault.message.contains(what) && !fault.message.is_empty(), "{text:?}: {fault}");
    }
    let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1)).collect();
    assert!(Template::parse(&format!("a0: &a0 [x]\n{bomb}"), None).is_err());
}

/// Names may be anything that people can read; limits themselves are allowed.
#[test]
fn names_have_limits() {
    let long = "🐘".repeat(NAME_MAX);
    Template::parse(&format!("name: {long}\n"), None).expect("as long as it may be");
    assert!(faults(&format!("name: {long}x\n"))[0].contains("201 characters; the limit is 200"));
    assert!(faults("name: \"a\\u0000b\"\n")[0].contains("control character"));
    Template::parse("name: \"a/b 'c'\"\n", None).expect("slashes and quotes");
}

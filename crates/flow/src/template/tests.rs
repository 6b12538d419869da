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

/// A template with all fields is read as written, and fields that are not given have their defaults.
#[test]
fn all_fields_are_read() {
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
    assert_eq!(ship.handler.callable, "ship", "the default handler has the name of the step");
    let when: Vec<PublishWhen> = ship.publishes_events.iter().map(|event| event.condition).collect();
    assert_eq!(when, [PublishWhen::Success, PublishWhen::Failure]);
    assert!(!template.steps[5].retry.retryable);
    let graph: Vec<_> = template.steps.iter().map(|step| (step.parents.as_slice(), step.children.as_slice())).collect();
    let expected: [(&[usize], &[usize]); 6] =
        [(&[], &[1, 5]), (&[0], &[2, 3]), (&[1], &[4]), (&[1], &[4]), (&[2, 3], &[]), (&[0], &[])];
    assert_eq!(graph, expected);
}

/// Steps that depend on a decision are not created at the start; the others are.
#[test]
fn steps_behind_a_decision_are_absent() {
    let template = Template::parse(ORDER, None).expect("a template");
    let absent: Vec<&str> = template.steps.iter().filter(|step| step.absent).map(|step| step.name.as_str()).collect();
    assert_eq!(absent, ["ship", "refund", "tell"]);
}

/// An environment overrides the fields it names, and nothing else.
#[test]
fn an_environment_overrides_the_fields_it_names() {
    let usual = Template::parse(ORDER, Some("production")).expect("a template");
    assert_eq!(usual, Template::parse(ORDER, None).expect("a template"));
    let test = Template::parse(ORDER, Some("test")).expect("a template");
    let check = &test.steps[0];
    assert_eq!((check.timeout, check.retry.max_attempts), (Some(Duration::from_secs(9)), 1));
    assert_eq!(check.retry.backoff, Backoff::Fibonacci, "as it was");
    assert_eq!((check.handler.callable.as_str(), &check.handler.initialization["limit"]), ("Shop::Check", &1.into()));
    assert_eq!(test.steps[1..], usual.steps[1..]);
}

/// A checked template is stored as JSON; reading it again gives the same template.
#[test]
fn a_template_survives_being_stored() {
    for text in [ORDER, BATCHES] {
        let template = Template::parse(text, Some("test")).expect("a template");
        let stored = serde_json::to_string(&template).expect("JSON");
        assert_eq!(Template::parse(&stored, None).expect("the stored template"), template);
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

/// JSON is read like YAML; unknown fields of a batch_config are kept for the handler.
#[test]
fn batches_are_read_from_json() {
    let template = Template::parse(BATCHES, None).expect("a template");
    assert_eq!((template.namespace.as_str(), template.version.as_str()), ("default", "1.0.0"));
    let config = template.steps[0].batch_config.as_ref().expect("batches");
    assert_eq!((config.failure_strategy, &config.hints["batch_size"]), (FailureStrategy::Isolate, &100.into()));
    assert_eq!(template.steps.iter().map(|step| step.absent).collect::<Vec<_>>(), [false, true, true]);
}

/// A number that a template cannot store as written is a fault, wherever any value may stand; other numbers are kept.
#[test]
fn numbers_that_would_be_stored_changed_are_faults() {
    let text = "name: t
input_schema: {maximum: 100000000000000000001}
steps:
- name: a
  type: batchable
  handler: {initialization: [1.5, 1e3, 0.1, 18446744073709551615, -9223372036854775808, '100000000000000000001']}
  result_schema: {enum: [0.1000000000000000055511151231257827]}
  batch_config: {worker_template: b, limit: 18446744073709551616}
- {name: b, type: batch_worker, dependencies: [a], handler: {initialization: -123456789012345678901}}
environments:
  test: {steps: [{name: a, handler: {initialization: {deep: [1e400]}}}]}
";
    let would = "it would be stored as";
    let write = "write a 64-bit number, or a string";
    let expected = [
        format!("line 2, column 25: invalid number 100000000000000000001: {would} 1e+20; {write}"),
        format!("line 7, column 26: invalid number 0.1000000000000000055511151231257827: {would} 0.1; {write}"),
        format!("line 8, column 45: invalid number 18446744073709551616: {would} 1.8446744073709552e+19; {write}"),
        format!("line 9, column 78: invalid number -123456789012345678901: {would} -1.2345678901234568e+20; {write}"),
    ];
    assert_eq!(faults(&text.replace("1e400", "1e30")), expected);
    // Too large for a double.
    assert!(faults(text)[0].starts_with("line 11, column "), "{:?}", faults(text));
}

/// A cycle is reported in full, with the line of its first dependency.
#[test]
fn a_cycle_is_reported_with_its_line() {
    let text = "name: t\nsteps:\n- name: a\n- name: b\n  dependencies: [a, d]\n- name: c\n  dependencies: [b]\n- name: d\n  dependencies: [c]\n";
    assert_eq!(faults(text), ["line 5, column 21: dependency cycle: b depends on d depends on c depends on b"]);
    let alone = faults("name: t\nsteps:\n- {name: a, dependencies: [a]}\n");
    assert_eq!(alone, ["line 3, column 28: dependency cycle: a depends on a"]);
}

/// All faults are reported together, in the order of the text, each with its line.
#[test]
fn all_faults_are_reported_with_their_lines() {
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
        (2, "invalid template name: must not be empty"),
        (3, "invalid identity_strategy \"sometimes\": must be one of strict, caller_provided, always_unique"),
        (4, "invalid input_schema: "),
        (5, "invalid max_duration_minutes: must be greater than 0 and at most 5256000, got 0"),
        (8, "invalid step type \"odd\": must be one of"),
        (9, "invalid timeout_seconds: must be greater than 0 and at most 315360000, got -1"),
        (10, "invalid max_attempts: must be between 1 and 1000, got 0"),
        (10, "invalid backoff \"slow\": must be one of"),
        (10, "invalid jitter: must be between 0 and 1, got 2"),
        (12, "step \"b\" depends on unknown step \"x\""),
        (12, "step \"b\" lists the dependency \"a\" twice"),
        (13, "duplicate step \"b\": already defined in line 11"),
        (14, "invalid condition \"never\": must be one of"),
        (16, "override of unknown step \"y\""),
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, (line, what)) in faults.iter().zip(expected) {
        assert!(fault.starts_with(&format!("line {line}, ")) && fault.contains(what), "{fault} is not {what}");
    }
}

/// Each kind of step requires certain steps around it.
#[test]
fn steps_without_what_their_kind_requires_are_faults() {
    for (steps, what) in [
        ("[{name: a, type: decision}]", "has no dependent steps"),
        ("[{name: a, type: deferred_convergence}]", "has no dependencies"),
        ("[{name: a, type: batchable}]", "has no batch_config"),
        ("[{name: a, type: batch_worker}]", "must depend on exactly one step"),
        ("[{name: a, batch_config: {worker_template: b}}, {name: b}]", "is not batchable"),
        ("[{name: a, type: batchable, batch_config: {}}]", "missing worker_template in batch_config"),
        (
            "[{name: a, type: batchable, batch_config: {worker_template: b}}, {name: b, dependencies: [a]}]",
            "is not a batch_worker step that depends on it",
        ),
        (
            "[{name: a, type: batchable, batch_config: {worker_template: b}}, {name: b, type: batch_worker, dependencies: [a]}, {name: b_001}]",
            "has the name of a part of",
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

/// Text that is not a template is reported with its position, and so is an unknown field; a YAML bomb is rejected.
#[test]
fn syntax_errors_are_reported_with_their_position() {
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

/// Names may contain any printable text, up to the limit.
#[test]
fn names_are_limited() {
    let long = "🐘".repeat(NAME_MAX);
    Template::parse(&format!("name: {long}\n"), None).expect("the longest allowed name");
    assert!(faults(&format!("name: {long}x\n"))[0].contains("at most 200 characters are allowed, got 201"));
    assert!(faults("name: \"a\\u0000b\"\n")[0].contains("control character"));
    Template::parse("name: \"a/b 'c'\"\n", None).expect("slashes and quotes");
}

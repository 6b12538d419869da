"""Keeps the run short, and provides a template."""

import os

import schemathesis

TASK, FAILED, SPARE = (os.environ[f"REVEILLE_TEST_{name}"] for name in ("TASK", "FAILED", "SPARE"))
ENTRY = int(os.environ["REVEILLE_TEST_ENTRY"])

# No step becomes ready here, so claims wait briefly.
MOST_MILLIS = 20
# Generated bodies are hardly ever valid templates.
TEMPLATE = {"name": "made", "namespace_name": "tests", "version": "1.0.0", "steps": [{"name": "a"}]}


def short(values):
    """The same with a short wait. What is no number is left as it was: it is to be refused."""
    if not isinstance(values, dict):
        return values
    wait = values.get("wait_ms", 30_000)
    is_long = isinstance(wait, (int, float)) and not isinstance(wait, bool) and MOST_MILLIS < wait <= 600_000
    return {**values, "wait_ms": MOST_MILLIS} if is_long or wait is None else values


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.path == "/v1/workers/claim":
        case.body = short(case.body)
    if case.path == "/v1/tasks/{task_uuid}" and case.method == "GET" and isinstance(case.query, dict) and "wait_ms" in case.query:
        case.query = {**case.query, "wait_ms": str(MOST_MILLIS)}
    # A stream lasts as long as its task, so use a task that has ended.
    if case.path.endswith("/events") and isinstance(case.path_parameters, dict) and case.path_parameters.get("task_uuid") == TASK:
        case.path_parameters = {**case.path_parameters, "task_uuid": FAILED}
    if case.path == "/v1/templates" and case.method == "POST" and case.body == {}:
        case.body = TEMPLATE
    if case.method == "DELETE" and case.path.startswith("/v1/schedules") and isinstance(case.path_parameters, dict):
        spared = {"s": "spare"}.get(case.path_parameters.get("name"), case.path_parameters.get("name"))
        case.path_parameters = {**case.path_parameters, "name": spared}
    if case.path == "/v1/dlq/{id}" and isinstance(case.path_parameters, dict) and isinstance(case.path_parameters.get("id"), int):
        case.path_parameters = {**case.path_parameters, "id": ENTRY}
    # The prepared data must not be cancelled.
    if case.path == "/v1/tasks/bulk" and isinstance(case.body, dict):
        case.body = {**case.body, "preview": True}
    # A task that no other request changes.
    if case.path.endswith("/{step}") and case.method == "PATCH" and isinstance(case.body, dict):
        if case.body.get("type") == "resolve_manually" and isinstance(case.path_parameters, dict):
            case.body = {key: value for key, value in case.body.items() if key != "result"}
            case.path_parameters = {"task_uuid": SPARE, "step": case.path_parameters.get("step")}

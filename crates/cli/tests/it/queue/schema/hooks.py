"""Keeps the run short, and what the test has made in place."""

import schemathesis

# A message that comes is nothing to hope for here, so no pop waits for long.
MOST_MILLIS = 20
# The data that requests find must not be deleted or changed; other data is created for that.
SPARED = {"known": "spare.mail", "readers": "leavers"} | {f"t{n}": f"d{n}" for n in range(10)}


def is_long(value):
    try:
        return float(value) > MOST_MILLIS
    except (TypeError, ValueError):
        return False


def spared(values):
    """The same, of others. What was no dictionary is left as it was: it is to be refused."""
    if not isinstance(values, dict):
        return values
    return {key: SPARED.get(value, value) if isinstance(value, str) else value for key, value in values.items()}


@schemathesis.hook
def before_call(context, case, kwargs):
    # What cannot be read as a time is sent as it is, and refused; what is not there would be half a minute.
    if case.path.startswith("/api/v1/pop") and is_long((case.query or {}).get("timeout", 30_000)):
        case.query = {**(case.query or {}), "timeout": str(MOST_MILLIS)}
    if case.method == "DELETE":
        case.path_parameters, case.query = spared(case.path_parameters), spared(case.query)
    if case.path.endswith("/configure"):
        case.body = spared(case.body)
    # Under maintenance nothing comes any more.
    if case.path.startswith("/api/v1/system/maintenance") and isinstance(case.body, dict) and case.body.get("enabled") is True:
        case.body = {**case.body, "enabled": False}

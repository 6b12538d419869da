"""What every program here begins with: the servers, the release of the client, names, and the running of its steps.

The client is used as its users use it, from the outside and unchanged. A step is a coroutine with a client; what it expects it
says in words, and a step that does not end in time has failed.
"""

import asyncio
import importlib.metadata
import sys
import time

from queen import Queen

# The servers, as the test gave them.
URLS = sys.argv[1:]
RELEASE = importlib.metadata.version("queen-mq")
# The two releases differ in what they offer, and a few times in what they make of the same answer.
OLD = RELEASE.startswith("0.")
# What a program says at last: the test looks for it.
DONE = "all steps are done"
# How long a step may take: long, because two cores run many tests at once.
STEP_SECONDS = 50
# How long a pop waits for something that comes.
LONG_MILLIS = 30_000
# How long a pop waits for something that does not come.
SHORT_MILLIS = 300


def name(text):
    """A name of this release's own: both talk to one server at the same time."""
    return f"{text}-{RELEASE.replace('.', '_')}"


def same(got, wanted, what):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def data(messages):
    return [message["data"] for message in messages]


def items(payloads):
    return [{"data": payload} for payload in payloads]


async def pop(builder, batch=100):
    """What is there now."""
    return await builder.batch(batch).wait(False).pop()


async def wait(builder, batch=100):
    """What comes."""
    return await builder.batch(batch).wait(True).timeout_millis(LONG_MILLIS).pop()


async def acked(queen, message, status=True, context=None):
    """Acks, and it must count."""
    answer = await queen.ack(message, status, context)
    assert answer["success"], f"an ack was refused: {answer}"
    for one in answer.get("results") or []:
        assert one["success"], f"an ack of several was refused: {one}"
    return answer


async def until(condition, what):
    """Waits for something that only asking can tell."""
    deadline = time.monotonic() + STEP_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.05)


async def fails(awaitable, part):
    """It must raise, with these words; returns what was raised."""
    try:
        answer = await awaitable
    except Exception as error:
        assert part in str(error), f"{part!r} is not in {error!r}"
        return error
    raise AssertionError(f"it did not fail with {part!r}, and answered {answer!r}")


def run(*steps):
    async def all_of_them():
        async with Queen(URLS[0]) as queen:
            for step in steps:
                began = time.monotonic()
                print(f"--- {step.__name__}", flush=True)
                await asyncio.wait_for(step(queen), STEP_SECONDS)
                print(f"    {time.monotonic() - began:.1f} s", flush=True)

    asyncio.run(all_of_them())
    print(DONE, flush=True)

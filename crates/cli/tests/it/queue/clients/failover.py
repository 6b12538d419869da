"""Two servers, of which one goes away while consumers wait at both."""

import asyncio
import socket
from urllib.parse import urlsplit

from program import DONE, LONG_MILLIS, STEP_SECONDS, URLS, items, name, same, until
from queen import Queen

# The client chooses a server by the queue's name; of so many some wait at each.
QUEUES = 12


async def gone(url):
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=5).close()
    except ConnectionError:
        return True
    return False


async def consumers_survive_a_server(queen):
    queues, seen = [name(f"failover-{number}") for number in range(QUEUES)], []

    async def take(message):
        seen.append(message["data"])

    async def consume(queue):
        await queen.queue(queue).group("g").batch(1).limit(2).timeout_millis(LONG_MILLIS).consume(take)

    consumers = [asyncio.create_task(consume(queue)) for queue in queues]
    for queue in queues:
        await queen.queue(queue).push(items([[queue, "before"]]))

    async def first_seen():
        return len(seen) == QUEUES

    await until(first_seen, "every consumer has seen its first message")
    print("the first server may go", flush=True)

    async def first_gone():
        return await gone(URLS[0])

    await until(first_gone, "the first server is gone")
    for queue in queues:
        await queen.queue(queue).push(items([[queue, "after"]]))
    await asyncio.gather(*consumers)
    expected = sorted([queue, when] for queue in queues for when in ["before", "after"])
    same(sorted(seen), expected, "each message, once")


async def main():
    async with Queen(URLS) as queen:
        await asyncio.wait_for(consumers_survive_a_server(queen), STEP_SECONDS)


asyncio.run(main())
print(DONE, flush=True)

"""Looking at queues and messages, and changing what becomes of them; traces."""

import asyncio

from program import LONG_MILLIS, OLD, acked, data, fails, items, name, pop, run, same


async def what_there_is(queen):
    queue, admin = name("shown"), queen.admin
    await queen.queue(queue).namespace(name("space")).task(name("task")).create()
    await queen.queue(queue).partition("p").push(items([1, 2, 3]))
    popped = await pop(queen.queue(queue).group("g"), batch=1)
    assert (await admin.get_overview())["messages"]["total"] >= 3, "the overview counts them"
    assert name("space") in [one["name"] for one in (await admin.get_namespaces())["namespaces"]], "the namespace"
    assert name("task") in [one["name"] for one in (await admin.get_tasks())["tasks"]], "the task"
    listed = (await admin.list_queues(search=queue, limit=10, offset=0))["queues"]
    same([(one["name"], one["messages"]["total"], one["messages"]["processing"]) for one in listed], [(queue, 3, 1)], "the list")
    detail = await admin.get_queue(queue)
    same((detail["name"], detail["namespace"], len(detail["partitions"])), (queue, name("space"), 2), "the queue")
    partitions = (await admin.get_partitions(queue=queue, limit=10))["partitions"]
    cursor = [one for one in partitions if one["name"] == "p"][0]["cursors"][0]
    same((cursor["consumerGroup"], cursor["leaseId"], cursor["lag"]), ("g", popped[0]["leaseId"], 3), "who reads it")
    await fails(admin.get_queue("nowhere"), "there is no queue")
    if not OLD:
        depth = await admin.get_queue_depth(queue, "g")
        same((depth["pending"], depth["partitionsPending"]), (3, 1), "how much waits")


async def how_it_is_doing(queen):
    queue, group, admin = name("doing"), name("doers"), queen.admin
    await queen.queue(queue).push(items([1]))
    await pop(queen.queue(queue).group(group))
    same((await admin.health())["status"], "ready", "health")
    # Text of Prometheus, which the client cannot read: it says None, and does not fail.
    await admin.metrics()
    assert (await admin.get_status())["overview"]["queues"] >= 1, "the status"
    assert queue in [one["name"] for one in (await admin.get_queue_stats(limit=100))["queues"]], "the queues' numbers"
    same((await admin.get_queue_detail(queue))["name"], queue, "the queue's numbers")
    assert "overview" in await admin.get_analytics(interval="hour"), "what is known"
    assert group in [one["name"] for one in await admin.list_consumer_groups()], "the groups"
    same((await admin.get_consumer_group(group))["queues"][0]["queueName"], queue, "the group's queue")
    lagging = await admin.get_lagging_consumers(0)
    assert any(one["consumerGroup"] == group for one in lagging), "who lags"
    same((await admin.refresh_consumer_stats())["success"], True, "numbers are always fresh")
    for metrics in [admin.get_system_metrics, admin.get_worker_metrics]:
        assert isinstance(await metrics(), dict), "the server's numbers"
    if OLD:
        assert (await admin.get_postgres_stats())["databaseBytes"] > 0, "the database's numbers"


async def messages_by_hand(queen):
    queue, admin = name("by-hand"), queen.admin
    pushed = await queen.queue(queue).push([{"transactionId": f"t/{n}", "data": n} for n in range(4)])
    partition = pushed[0]["partition_id"]
    listed = (await admin.list_messages(queue=queue, status="pending", limit=10, offset=0))["messages"]
    same(sorted(one["transactionId"] for one in listed), ["t/0", "t/1", "t/2", "t/3"], "the list")
    same((await admin.get_message(partition, "t/1"))["data"], 1, "one message")
    same((await admin.delete_message(partition, "t/1"))["success"], True, "deleting it")
    await fails(admin.get_message(partition, "t/1"), "no message")
    if OLD:
        same((await admin.move_message_to_dlq(partition, "t/0"))["success"], True, "giving it up")
    else:
        # 2.6 asks for it by an ack.
        first = await pop(queen.queue(queue), batch=1)
        await acked(queen, first[0], "dlq")
    same(data((await queen.queue(queue).dlq().get())["messages"]), [0], "dead letters")
    same((await admin.retry_message(partition, "t/0"))["success"], True, "trying it again")
    same(data(await pop(queen.queue(queue))), [2, 3, 0], "what is there, in order")
    if OLD:
        same((await admin.clear_queue(queue))["cleared"], True, "clearing it")
        same((await admin.list_messages(queue=queue))["messages"], [], "after that")


async def traces(queen):
    queue, trace_name, reply = name("traced"), name("order 7/a"), []
    await queen.queue(queue).push([{"transactionId": "order-7", "data": 7}])

    async def take(message):
        reply.append(await message["trace"]({"traceName": trace_name, "eventType": "processing", "data": {"text": "begun"}}))
        reply.append(await message["trace"]({"traceName": [trace_name, name("all")], "data": {"text": "done"}}))
        reply.append(await message["trace"]({"data": {"text": "without a name"}}))
        reply.append(message["partitionId"])

    await queen.queue(queue).group("g").batch(1).limit(1).timeout_millis(LONG_MILLIS).consume(take)
    *answers, partition = reply
    same([answer["success"] for answer in answers], [True] * 3, "the traces")
    named = (await queen.admin.get_traces_by_name(trace_name, limit=10))["traces"]
    same([(one["eventType"], one["data"]["text"]) for one in named], [("processing", "begun"), ("info", "done")], "by name")
    of_message = (await queen.admin.get_traces_for_message(partition, "order-7"))["traces"]
    same([one["consumerGroup"] for one in of_message], ["g"] * 3, "of the message")
    names = (await queen.admin.get_trace_names(search=trace_name))["names"]
    same([(one["name"], one["traceCount"]) for one in names], [(trace_name, 2)], "the names")


async def maintenance(queen):
    """2.6 has no calls for it. It is the whole server's, so nothing else runs meanwhile."""
    if not OLD:
        return
    queue, admin = name("maintained"), queen.admin
    same((await admin.set_maintenance_mode(True))["maintenanceMode"], True, "switching it on")
    pushed = await queen.queue(queue).push(items([1, 2]))
    same([one["status"] for one in pushed], ["buffered", "buffered"], "pushes meanwhile")
    same((await admin.get_maintenance_mode())["bufferedMessages"], 2, "what is kept aside")
    same(await pop(queen.queue(queue)), [], "nothing to read")
    same((await admin.set_maintenance_mode(False))["maintenanceMode"], False, "switching it off")
    waited = await queen.queue(queue).batch(2).timeout_millis(LONG_MILLIS).pop()
    while len(waited) < 2:
        waited += await queen.queue(queue).batch(2).timeout_millis(LONG_MILLIS).pop()
    same(data(waited), [1, 2], "what was kept, in order")
    same((await admin.set_pop_maintenance_mode(True))["popMaintenanceMode"], True, "pops, too")
    await queen.queue(queue).push(items([3]))
    waiting = asyncio.create_task(queen.queue(queue).group("g").batch(9).timeout_millis(LONG_MILLIS).pop())
    same(await pop(queen.queue(queue).group("g")), [], "pops meanwhile")
    assert not waiting.done(), "a waiting pop was answered at once: its consumer would ask without end"
    same((await admin.get_pop_maintenance_mode())["popMaintenanceMode"], True, "as it says")
    await admin.set_pop_maintenance_mode(False)
    same(data(await waiting), [1, 2, 3], "what is there")


run(what_there_is, how_it_is_doing, messages_by_hand, traces, maintenance)

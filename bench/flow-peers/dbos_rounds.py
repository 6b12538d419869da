"""One round of a workload on dbos.

A workflow of as many steps as the shape has, one after the other; each step is checkpointed, as @DBOS.step does it. Workflows are started
with DBOS.start_workflow, which runs them in this process: the fastest way that dbos has. The parent process commands this program by its
standard input, as all programs that play a round: it says that it is ready, and after every line measures and says what came out.
"""

import argparse
import json
import math
import os
import sys
import threading
import time

from dbos import DBOS

STEPS = {"single": 1, "chain": 4}
SUBMITTERS = 16  # As many as for all contenders.
RUN_UP = 1.0  # Seconds before anything is counted.
WARM_UP = 20

lock = threading.Lock()
ran = {"steps": 0, "tasks": 0}
room = threading.Semaphore(0)
size = 0


@DBOS.step()
def step(last):
    with lock:
        ran["steps"] += 1
        ran["tasks"] += last
    if last:
        room.release()
    return True


@DBOS.workflow()
def task(context):
    for number in range(size):
        step(number + 1 == size)
    return True


def submit():
    return DBOS.start_workflow(task, {"order": 4711, "customer": "ada-1815"})


def latency(samples):
    taken = []
    for _ in range(samples):
        begun = time.perf_counter()
        submit().get_result()
        taken.append((time.perf_counter() - begun) * 1000)
    taken.sort()
    figures = {name: taken[max(math.ceil(samples * q), 1) - 1] for name, q in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))}
    return {"figures": {**figures, "samples": samples}}


def rate(concurrent, seconds):
    stopping = threading.Event()

    def submitting():
        while not stopping.is_set():
            room.acquire()
            submit()

    # Nothing that ran before counts, nor makes room.
    start = dict(ran)
    while room.acquire(blocking=False):
        pass
    for _ in range(concurrent):
        room.release()
    for _ in range(SUBMITTERS):
        threading.Thread(target=submitting, daemon=True).start()
    time.sleep(RUN_UP)
    begun, first, each_second = time.perf_counter(), dict(ran), []
    before = first["steps"]
    for second in range(1, seconds + 1):
        time.sleep(max(begun + second - time.perf_counter(), 0))
        now = ran["steps"]
        each_second.append(now - before)
        before = now
    took, last = time.perf_counter() - begun, dict(ran)
    stopping.set()
    per_second = {f"{name}_per_s": (last[name] - first[name]) / took for name in last}
    return {"figures": {**per_second, **{name: last[name] - start[name] for name in last}}, "each_second": each_second}


def say(line):
    print(json.dumps(line, separators=(",", ":")), flush=True)


def main():
    global size
    parser = argparse.ArgumentParser()
    parser.add_argument("--schema", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--workload", type=json.loads, required=True)
    arguments = parser.parse_args()
    workload = arguments.workload
    if workload["shape"] not in STEPS:
        sys.exit(f"no round of {workload['shape']} here")
    size = STEPS[workload["shape"]]
    at_once = workload["workers"] * workload["slots"]
    DBOS(
        config={
            "name": "reveille-bench",
            "system_database_url": os.environ["DATABASE_URL"],
            "dbos_system_schema": arguments.schema,
            "sys_db_pool_size": arguments.connections,
            "max_executor_threads": at_once,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    latency(WARM_UP)
    say({"ready": True})
    for _ in sys.stdin:
        (how, what), = workload["measure"].items()
        say(latency(**what) if how == "latency" else rate(**what))
    # Threads that submit are under way: nothing of them is measured any more.
    os._exit(0)


if __name__ == "__main__":
    main()

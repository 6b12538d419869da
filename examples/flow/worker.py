"""A worker of flow with Python's standard library alone.

It claims steps, calls the function that a step's `callable` names, sends heartbeats meanwhile, and reports the result.
A function that raises has failed; `Failed` says whether to retry. Ctrl-C or SIGTERM stops it after the running steps.

    python3 examples/flow/worker.py http://127.0.0.1:6632 words
"""

import json
import signal
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 4  # The most steps in progress.
LEASE_MS = 30_000  # The lease; a heartbeat is sent every third of it.
WAIT_MS = 5_000  # How long one claim waits, and how long stopping may take.


class Failed(Exception):
    def __init__(self, message, retryable=True, retry_delay_ms=None):
        super().__init__(message)
        self.error = {"message": message, "retryable": retryable, "retry_delay_ms": retry_delay_ms}


def split(step):
    return {"words": step["context"]["text"].split()}


def count(step):
    if step["attempt"] == 1:
        raise Failed("not at the first attempt", retry_delay_ms=10)
    return {"count": len(step["results"]["split"]["words"])}


def tell(step):
    return f"{step['results']['count']['count']} words"


HANDLERS = {"split": split, "count": count, "tell": tell}


class Worker:
    def __init__(self, server, namespace):
        self.server, self.namespace = server, namespace
        self.stopping = threading.Event()
        self.mine = set()  # The tokens of the steps in progress.

    def post(self, route, body, pause=1.0):
        """Sends a request until the server answers; a repeated report is applied once. `None` is a response without a body."""
        request = urllib.request.Request(f"{self.server}/v1/workers/{route}", json.dumps(body).encode(), {"content-type": "application/json"})
        while True:
            try:
                with urllib.request.urlopen(request, timeout=WAIT_MS / 1000 + 30) as answer:
                    return json.load(answer) if answer.status == 200 else None
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise SystemExit(f"{route}: {error.read().decode()}") from error
            except OSError:
                pass
            threading.Event().wait(pause)

    def report(self, route, **said):
        for result in self.post(route, {"steps": [said]})["results"]:
            if not result["ok"]:
                print(f"{route}: {result['error']}", flush=True)

    def work(self, step):
        token = step["token"]
        try:
            handler = HANDLERS.get(step["callable"])
            if handler is None:
                raise Failed(f"there is no {step['callable']!r} here", retryable=False)
            result = handler(step)
        except Failed as failed:
            self.report("fail", token=token, error=failed.error)
        except Exception as error:  # An unexpected error: the template decides whether it is retried.
            self.report("fail", token=token, error={"message": str(error), "type": type(error).__name__})
        else:
            self.report("complete", token=token, result=result)
        finally:
            self.mine.discard(token)

    def beat(self):
        while not self.stopping.wait(LEASE_MS / 3000) or self.mine:
            steps = [{"token": token, "lease_ms": LEASE_MS} for token in list(self.mine)]
            for result in self.post("heartbeat", {"steps": steps})["results"] if steps else []:
                if not result["ok"] and result["token"] in self.mine:
                    print("a step was lost: what it does will not count", flush=True)

    def run(self):
        threading.Thread(target=self.beat, daemon=True).start()
        free = threading.Semaphore(AT_ONCE)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while not self.stopping.is_set():
                free.acquire()
                request = {"worker": "worker.py", "namespaces": [self.namespace], "max_steps": 1, "lease_ms": LEASE_MS, "wait_ms": WAIT_MS}
                claimed = self.post("claim", request)
                if not claimed:
                    free.release()
                    continue
                step = claimed["steps"][0]
                if self.stopping.is_set():
                    self.report("release", token=step["token"])
                    break
                self.mine.add(step["token"])
                pool.submit(self.work, step).add_done_callback(lambda _: free.release())


if __name__ == "__main__":
    worker = Worker(*sys.argv[1:])
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: worker.stopping.set())
    print("ready", flush=True)
    worker.run()
    print("done", flush=True)

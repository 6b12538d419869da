"""The example worker with a short lease; its steps run until it receives SIGUSR1.

    worker.py EXAMPLE SERVER NAMESPACE NAME AT_ONCE
"""

import importlib.util
import signal
import sys
import threading

path, server, namespace, name, at_once = sys.argv[1:]
spec = importlib.util.spec_from_file_location("example", path)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

# Python handles a signal in its main thread, which nothing wakes if the system gave it to another: so one waits for it.
go_on = threading.Event()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
threading.Thread(target=lambda: signal.sigwait({signal.SIGUSR1}) and go_on.set(), daemon=True).start()


def hold(step):
    print(f"{name} has {step['name']}, attempt {step['attempt']}", flush=True)
    go_on.wait()
    return {"by": name}


class Worker(example.Worker):
    def post(self, route, body, pause=0.05):
        return super().post(route, {**body, "worker": name} if route == "claim" else body, pause)


example.LEASE_MS, example.AT_ONCE, example.HANDLERS = 2_000, int(at_once), {"hold": hold}
print("ready", flush=True)
Worker(server, namespace).run()

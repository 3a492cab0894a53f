#!/usr/bin/env python3
"""A candidate in Python: the whole protocol of the election service, with `requests` alone.

    pip install requests
    TENURE_URL=http://127.0.0.1:7070 python candidate.py nightly-report

Start as many as you like. One of them works at a time; when it ends or dies, another goes on.
TENURE_TOKEN is the token that a service on another machine asks for, TENURE_NODE the node that it names, TENURE_TTL is
the lease in seconds.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import uuid

import requests

GROUP = sys.argv[1] if len(sys.argv) > 1 else "python"
URL = os.environ.get("TENURE_URL", "http://127.0.0.1:7070").rstrip("/") + f"/v1/groups/{GROUP}"
NODE = os.environ.get("TENURE_NODE", f"{socket.gethostname()}-{os.getpid()}")
TTL = float(os.environ.get("TENURE_TTL", "15"))
CALL_TIMEOUT = TTL / 5
# Two clocks may run at slightly different speeds. What is left over is also the time in which the work must stop.
MARGIN = TTL / 10
# Names this start of the program. A campaign whose answer was lost can be sent again: it gets its own lease back.
INSTANCE = str(uuid.uuid4())

stopping = threading.Event()


def now():
    """Seconds on a clock that nobody sets, and that counts while the machine sleeps (where there is one)."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def new_session():
    session = requests.Session()
    if "TENURE_TOKEN" in os.environ:
        session.headers["authorization"] = f"Bearer {os.environ['TENURE_TOKEN']}"
    return session


calls = new_session()


def ask(action, **body):
    """The answer, or None if nobody knows whether it was done."""
    try:
        response = calls.post(f"{URL}/{action}", json={"node_id": NODE, **body}, timeout=CALL_TIMEOUT)
        answer = response.json()
    except (requests.RequestException, ValueError) as error:
        print(f"{action}: {error}", file=sys.stderr)
        return None
    if response.status_code != 200:
        print(f"{action}: {answer.get('error')}: {answer.get('message')}", file=sys.stderr)
    return answer


class Lease:
    """A term of ours. It counts from the moment at which a request was *sent*: the answer may have taken long."""

    def __init__(self, leader, sent):
        self.term = leader["term"]
        self.lost = threading.Event()
        self.confirm(leader, sent)

    def confirm(self, leader, sent):
        # A lease that we got back has less left than a new one.
        self.ends = sent + min(TTL, leader["lease_remaining_ms"] / 1000) - MARGIN

    def is_held(self):
        if now() >= self.ends:
            self.lost.set()
        return not self.lost.is_set()

    def renew(self):
        sent = now()
        answer = ask("renew", term=self.term, extend_by_ms=int(TTL * 1000))
        if answer is None:
            return  # Perhaps it was extended, perhaps not: nothing to count on.
        if answer.get("ok"):
            self.confirm(answer["leader"], sent)
        elif answer.get("error") == "NOT_LEADER":
            self.lost.set()


def work(lease):
    """What only one may do at a time. The term goes to whatever is written to, which refuses lower ones."""
    while lease.is_held() and not stopping.is_set():
        print(f"{NODE} works in term {lease.term}", flush=True)
        lease.lost.wait(TTL / 10)


def lead(lease):
    worker = threading.Thread(target=work, args=(lease,))
    worker.start()
    while worker.is_alive() and lease.is_held():
        worker.join(min(TTL / 3, max(0.01, lease.ends - now())))
        if worker.is_alive() and lease.is_held():
            lease.renew()
    worker.join()
    if lease.is_held():
        # The work has ended before the lease: the next one need not wait for its end.
        ask("resign", term=lease.term)
    print(f"{NODE} has ended term {lease.term}", flush=True)


def wait_for_change(retry_after):
    """Until nobody leads, as far as the stream of events tells, or for as long as the lease of the leader lasts."""
    until = now() + retry_after
    try:
        # Something comes every 15 seconds at least. A stream that is silent for longer is dead.
        with watches.get(f"{URL}/watch", headers={"accept": "text/event-stream"}, stream=True, timeout=(5, 20)) as answer:
            for line in answer.iter_lines():
                if stopping.is_set() or now() >= until:
                    return
                if not line.startswith(b"data: "):
                    continue
                event = json.loads(line[len(b"data: "):])
                if event.get("leader") is None:
                    return
                until = now() + event["leader"]["lease_remaining_ms"] / 1000
    except (requests.RequestException, ValueError) as error:
        print(f"watch: {error}", file=sys.stderr)
    # The stream has ended, or there was none.
    stopping.wait(min(1, max(0.1, retry_after)))


watches = new_session()
waiting = False


def on_signal(*_):
    stopping.set()
    # Whoever leads ends its work first, and whoever asks gets its answer first.
    if waiting:
        sys.exit(0)


def main():
    global waiting
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    while not stopping.is_set():
        sent = now()
        answer = ask("campaign", lease_ttl_ms=int(TTL * 1000), instance_start_uuid=INSTANCE)
        if answer is not None and answer.get("is_leader"):
            lead(Lease(answer["leader"], sent))
        elif answer is not None and answer.get("leader"):
            print(f"{NODE} waits for {answer['leader']['node_id']}", flush=True)
            waiting = True
            wait_for_change(answer["retry_after_ms"] / 1000)
            waiting = False
        else:
            stopping.wait(1 if answer is None else answer.get("retry_after_ms", 1000) / 1000)


main()

#!/usr/bin/env python3
"""A leader loop in Python: the whole protocol of the election service, with only the standard library.

    TENURE_URL=http://127.0.0.1:7070 python3 leader.py nightly-report

Start as many as you like. One works at a time, and when it exits or dies, another takes over. Put your work into work().

TENURE_NODE is the name of this candidate, TENURE_TTL the lease in seconds. For a service on another machine:
TENURE_TOKEN_FILE names the token file, TENURE_CA_FILE the CA certificate.
"""

import http.client
import ipaddress
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import uuid

LARGEST_ANSWER = 1 << 20


def now():
    """Seconds on a clock that cannot be set. On Linux it also counts while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def say(*words):
    print(*words, flush=True)


def complain(*words):
    print(*words, file=sys.stderr, flush=True)


class Service:
    """Calls for one election. Each has one deadline for DNS, the connection and the whole answer."""

    def __init__(self, url, group, node, token_file=None, ca_file=None):
        self.url = urllib.parse.urlsplit(url)
        self.path = f"{self.url.path.rstrip('/')}/v1/groups/{urllib.parse.quote(group, safe='')}/"
        self.node = node
        self.token_file = token_file
        self.tls = ssl.create_default_context(cafile=ca_file) if self.url.scheme == "https" else None
        if token_file and not self.tls and not is_loopback(self.url.hostname):
            raise SystemExit("A token is sent over https:// only: everybody on the way could use it.")

    def ask(self, action, timeout, **body):
        """Returns the answer; None if the outcome is unknown."""
        answers = []
        connection = self.connect(timeout)
        asking = threading.Thread(target=self.send, args=(connection, action, body, answers), daemon=True)
        asking.start()
        # The socket timeout applies to each part of an answer, and does not cover DNS, so the
        # deadline is enforced here.
        asking.join(timeout)
        if not answers:
            cut(connection)
            complain(f"{action}: no answer within {timeout:.1f} s")
            return None
        return answers[0]

    def connect(self, timeout):
        if self.tls:
            return http.client.HTTPSConnection(self.url.netloc, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(self.url.netloc, timeout=timeout)

    def send(self, connection, action, body, answers):
        try:
            headers = {"content-type": "application/json"}
            if self.token_file:
                # Read the file each time, because the token is replaced before it expires.
                with open(self.token_file, encoding="utf-8") as file:
                    headers["authorization"] = f"Bearer {file.read().strip()}"
            connection.request("POST", self.path + action, json.dumps({"node_id": self.node, **body}), headers)
            answer = json.loads(connection.getresponse().read(LARGEST_ANSWER))
            if answer.get("error"):
                complain(f"{action}: {answer['error']}: {answer.get('message')}")
            answers.append(answer)
        except Exception as error:  # Whatever it was, nobody knows whether it was done.
            complain(f"{action}: {error}")
            answers.append(None)
        finally:
            connection.close()


def cut(connection):
    """Aborts a call that hangs."""
    try:
        connection.sock.shutdown(socket.SHUT_RDWR)
    except (AttributeError, OSError):
        pass


def is_loopback(host):
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Lease:
    """A term of this candidate, and when it must end."""

    def __init__(self, term, ttl):
        self.term = term
        self.ttl = ttl
        # For clock drift, and for the time that the work takes to stop.
        self.margin = ttl / 10
        # The lease is not held before its first confirmation.
        self.ends = None
        self.lost = threading.Event()

    def confirm(self, leader, sent):
        """Records a confirmation. The lease counts from when the request was sent, because the answer may have taken long.

        A lease that has ended does not start again, because the work may already have been stopped.
        """
        if self.ends is None or self.is_held():
            self.ends = sent + min(self.ttl, leader["lease_remaining_ms"] / 1000) - self.margin

    def is_held(self):
        """Checks the clock each time. It needs no timer, so it is right even after a pause."""
        if self.ends is None:
            return False
        if now() >= self.ends:
            self.lost.set()
        return not self.lost.is_set()

    def wait(self, seconds):
        """Waits, at most until the lease ends. Returns whether the lease is still held."""
        self.lost.wait(max(0, min(seconds, self.ends - now())))
        return self.is_held()


class Candidate:
    """Campaigns, and runs the work while it leads."""

    def __init__(self, service, ttl, work):
        self.service = service
        self.ttl = ttl
        self.work = work
        self.call_timeout = ttl / 5
        self.stopping = threading.Event()
        self.is_leading = False
        # Identifies this candidacy. A campaign whose answer was lost is sent again with this id,
        # and gets its own lease back.
        self.candidacy = str(uuid.uuid4())

    def run(self):
        while not self.stopping.is_set():
            lease = self.campaign()
            if lease and lease.is_held():
                self.lead(lease)

    def campaign(self):
        """Waits in the campaign queue. Returns a lease, or None."""
        wait = min(self.ttl, 10)
        answer = self.service.ask(
            "campaign",
            wait + self.call_timeout,
            lease_ttl_ms=int(self.ttl * 1000),
            wait_ms=int(wait * 1000),
            instance_start_uuid=self.candidacy,
        )
        if answer is None:
            self.stopping.wait(1)
            return None
        if not answer.get("is_leader"):
            # A campaign that waited in the queue needs no further pause.
            if answer.get("error"):
                self.stopping.wait(max(1, answer.get("retry_after_ms", 0) / 1000))
            return None
        self.candidacy = str(uuid.uuid4())
        lease = Lease(answer["leader"]["term"], self.ttl)
        # The wait took an unknown time, so the lease counts from this renewal.
        self.renew(lease)
        return lease

    def renew(self, lease):
        """Returns whether the renewal was confirmed."""
        sent = now()
        answer = self.service.ask(
            "renew", self.call_timeout, term=lease.term, extend_by_ms=int(self.ttl * 1000)
        )
        if answer is None:
            return False  # Perhaps it was extended, perhaps not: nothing to count on.
        if answer.get("error") == "NOT_LEADER":
            lease.lost.set()
        if answer.get("ok"):
            lease.confirm(answer["leader"], sent)
        return answer.get("ok") is True

    def lead(self, lease):
        self.is_leading = True
        # Renewals have their own thread, so that a hanging renewal cannot delay the end.
        threading.Thread(target=self.keep, args=(lease,), daemon=True).start()
        say(f"{self.service.node} leads in term {lease.term}")
        try:
            self.work(lease, self.stopping)
        finally:
            held = lease.is_held()
            lease.lost.set()
            if held:
                # The work ended before the lease did. Resigning saves the next leader the wait.
                self.service.ask("resign", self.call_timeout, term=lease.term)
            self.is_leading = False
            say(f"{self.service.node} has ended term {lease.term}")

    def keep(self, lease):
        pause = self.ttl / 3
        while lease.wait(pause):
            pause = self.ttl / 3 if self.renew(lease) else self.ttl / 30


def work(lease, stopping):
    """The work that only one candidate may do at a time. It stops soon after the lease has ended, or when asked to stop.

    Pass lease.term to every resource that it writes to, and let that reject lower terms. Nothing else stops a program that
    was paused between its last check of the lease and its write.
    """
    while lease.is_held() and not stopping.is_set():
        say(f"term {lease.term}: works")
        lease.wait(lease.ttl / 30)


def main():
    ttl = float(os.environ.get("TENURE_TTL", "15"))
    service = Service(
        os.environ.get("TENURE_URL", "http://127.0.0.1:7070"),
        sys.argv[1] if len(sys.argv) > 1 else "python",
        os.environ.get("TENURE_NODE", f"{socket.gethostname()}-{os.getpid()}"),
        os.environ.get("TENURE_TOKEN_FILE"),
        os.environ.get("TENURE_CA_FILE"),
    )
    candidate = Candidate(service, ttl, work)
    running = threading.Thread(target=candidate.run, daemon=True)

    def stop(*_):
        candidate.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    running.start()
    # A waiting candidate exits at once. A leader ends its work and releases the lease first, or the
    # lease expires.
    candidate.stopping.wait()
    running.join(ttl if candidate.is_leading else 0)


if __name__ == "__main__":
    main()

"""`python -m local demo`: the main road end to end, then two killed sweeps, then the count.

Every figure that is printed comes from the database or the inbox; the command fails when one of
them is not what the story says.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import psycopg

from local.evidence import Evidence, collect
from local.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PEOPLE = ("ada", "grace", "edsger", "barbara", "alan")
UNLUCKY = "margaret"
LEASE, GRACE = 6, 8
SETTINGS = {
    "CALL_BUDGET_SECONDS": "2",
    "CONNECT_TIMEOUT_SECONDS": "0.5",
    "READ_TIMEOUT_SECONDS": "1.4",
    "START_MARGIN_SECONDS": "1",
    "CALLER_MARGIN_SECONDS": "2",
    "SWEEP_TIMEOUT_SECONDS": "10",
    "SWEEP_LINGER_SECONDS": "4",
    "LEASE_SECONDS": str(LEASE),
    "UNKNOWN_GRACE_SECONDS": str(GRACE),
}
EXPECTED = {
    "signups": len(PEOPLE) + 1,
    "sent": len(PEOPLE) + 1,
    "verified": len(PEOPLE) + 1,
    "recovered": 1,
    "unknown": 2,
    "lost": 0,
    "duplicates": 0,
}
_PATIENCE_SECONDS = 30
_ENQUEUE = """-- demo.enqueue
    SELECT postlease.enqueue_email('account_exists', ARRAY['ops@example.com'], '{}',
                                   delivery => 'at_most_once')"""
_UNSETTLED = """-- demo.unsettled
    SELECT coalesce(max(extract(epoch FROM lease_expires_at - now())), 0)
    FROM postlease.email_messages WHERE status = 'sending'"""


class DemoError(Exception):
    """The story did not go as told; the text is one line and says where."""


def run_demo(logs: Path | None) -> int:
    """Tell the story; 0 when all of it is true."""
    began = time.monotonic()
    say("Starting PostgreSQL, an emulated AWS and every function of template.yaml ...")
    with Stack(settings=SETTINGS, timeouts={"sweep": 10}, logs=logs) as stack:
        say(f"  up in {time.monotonic() - began:.1f} s at {stack.url}")
        say(f"  database on {stack.server}")
        say("  settings " + " ".join(f"{name}={value}" for name, value in SETTINGS.items()))
        _main_road(stack)
        _kill_before_acceptance(stack)
        _kill_after_acceptance(stack)
        _recover(stack)
        _verify(stack)
        evidence = collect(stack.database_url, stack.inbox())
        cold_starts = {name: f.init_milliseconds for name, f in stack.functions.items()}
    _print_table(evidence)
    shown = (f"{name} {max(times):.0f} ms" for name, times in cold_starts.items() if times)
    say("cold starts, the slowest of each: " + ", ".join(shown))
    say(f"took {time.monotonic() - began:.1f} s")
    figures = evidence.figures()
    wrong = [name for name, value in figures.items() if value != EXPECTED[name]]
    for name in wrong:
        say(f"WRONG: {name} is {figures[name]}, expected {EXPECTED[name]}")
    say("demo: " + " ".join(f"{name}={value}" for name, value in figures.items()))
    return 1 if wrong else 0


def _main_road(stack: Stack) -> None:
    say("\n1. Sign up over HTTP; the mail is a row in the same transaction.")
    events = [_sign_up(stack, name) for name in PEOPLE]
    say(f"  {len(events)} sign-ups answered 202; states now: {_states(stack, events)}")
    say("  the schedule ticks: a sweep leases, renders, sends, records ...")
    sweep = _Sweep(stack)
    _wait(lambda: _states(stack, events) == {"sent": len(events)}, "the first mails are sent")
    say(f"  states now: {_states(stack, events)}")
    mail = stack.inbox()[0]
    say(f"\n  From: {mail['from']}\n  To: {', '.join(mail['to'])}\n  Subject: {mail['subject']}\n")
    say("\n".join(f"  | {line}" for line in mail["text"].splitlines()))
    say(f"\n  {_verify(stack)} people post the token of their link; all are verified.")
    sweep.join()


def _kill_before_acceptance(stack: Stack) -> None:
    say("\n2. Kill a sweep while the provider holds the call, before it accepts anything.")
    _sign_up(stack, UNLUCKY)
    stack.set_faults("stall", times=1)
    sweep = _Sweep(stack)
    if not stack.provider.wait_for(lambda counts: counts.held == 1, seconds=_PATIENCE_SECONDS):
        raise DemoError("the provider was never called")
    _kill(stack, sweep)
    if not stack.provider.wait_for(lambda counts: counts.held == 0, seconds=_PATIENCE_SECONDS):
        raise DemoError("the provider did not notice that its client is gone")
    say("  the provider forgets the call: this mail was not accepted, but nobody here can know")


def _kill_after_acceptance(stack: Stack) -> None:
    say("\n3. Kill a sweep after the provider has accepted, its answer lost on the way.")
    with psycopg.connect(stack.database_url) as producer:
        producer.execute(_ENQUEUE)
    say("  a producer asked for it by plain SQL, in its own transaction, at_most_once")
    accepted = stack.provider.counts.accepted
    stack.set_faults("lose_response", times=1)
    sweep = _Sweep(stack)
    if not stack.provider.wait_for(
        lambda counts: counts.accepted == accepted + 1, seconds=_PATIENCE_SECONDS
    ):
        raise DemoError("the provider was never called")
    _kill(stack, sweep)


def _recover(stack: Stack) -> None:
    say("\n4. Both are unknown now. Nobody guesses: lease and grace must pass, then the reaper")
    say("   settles each by its own policy.")
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(_UNSETTLED).fetchone()
    left = max(float(row[0]) if row else 0.0, 0.0) + GRACE + 0.2
    say(f"  waiting {left:.1f} s (lease {LEASE} s, grace {GRACE} s)")
    time.sleep(left)
    say(f"  reaper: {_shown(stack.invoke('reaper'))}")
    sent = len(stack.inbox())
    sweep = _Sweep(stack)
    _wait(lambda: len(stack.inbox()) > sent, "the recovered mail is sent")
    sweep.join()
    say(f"  next sweep: {_shown(sweep.result)}")


def _verify(stack: Stack) -> int:
    """Post the token of every mail that has one; how many answered `verified`."""
    verified = 0
    for mail in stack.inbox():
        if token := re.search(r"#token=([\w-]+)", mail["text"] or ""):
            status, answer = _post(stack, "/v1/verifications", {"token": token[1]})
            if status != 200 or answer.get("status") != "verified":
                raise DemoError(f"a token was answered {status}")
            verified += 1
    return verified


def _sign_up(stack: Stack, name: str) -> str:
    status, answer = _post(stack, "/v1/signups", {"email": f"{name}@example.com"})
    if status != 202:
        raise DemoError(f"a sign-up was answered {status}")
    return str(answer["verification"]["event_id"])


def _states(stack: Stack, events: list[str]) -> dict[str, int]:
    """How many of the events are in which state, as the API answers."""
    states: dict[str, int] = {}
    for event in events:
        with urllib.request.urlopen(f"{stack.url}/v1/events/{event}") as answer:  # noqa: S310
            state = json.load(answer)["status"]
        states[state] = states.get(state, 0) + 1
    return states


class _Sweep(threading.Thread):
    """A tick of the sweep's schedule, under way."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        self.result: Any = None
        self._stack = stack
        self.start()

    def run(self) -> None:
        self.result = self._stack.run("sweep").value


def _kill(stack: Stack, sweep: _Sweep) -> None:
    killed = stack.kill("sweep")
    sweep.join(_PATIENCE_SECONDS)
    if len(killed) != 1:
        raise DemoError(f"one busy sweep was to be killed, {len(killed)} were found")
    say(f"  SIGKILL to process {killed[0]}: {sweep.result['errorMessage'].split('Error: ')[-1]}")


def _post(stack: Stack, path: str, content: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(  # noqa: S310  our own gateway
        stack.url + path, json.dumps(content).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise DemoError(f"waited {_PATIENCE_SECONDS} s in vain until {what}")
        time.sleep(0.05)


def _shown(result: Any) -> str:
    return ", ".join(f"{name} {number}" for name, number in result.items() if number) or "nothing"


def _print_table(evidence: Evidence) -> None:
    heads = ("event", "template", "policy", "status", "reason", "claims", "outcomes", "mails")
    rows = [
        (
            message.event,
            message.template,
            message.delivery,
            message.status,
            message.failure_reason or "-",
            str(message.attempts),
            " ".join(message.outcomes),
            str(message.mails),
        )
        for message in evidence.messages
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    say("")
    for row in (heads, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    say("")


def say(line: str) -> None:
    """Print at once, so that a pipe sees the story as it happens."""
    print(line, flush=True)

"""How soon a mail leaves: auth mail by the doorbell, a plain SQL producer's by a lingering sweep.

`python -m bench.doorbell` runs the local stack, real processes and sockets, and ends with status 1
if a target is missed. Every figure is the time between two things that happened: the message's
transaction and the request at the provider's socket, by one machine's clock.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
import time
import urllib.request
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from bench.measuring import arguments
from local.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UPS = 5
SIGN_UPS = 60
PRODUCED = 30
DOORBELL_TARGET_MS = 200
SWEEP_TARGET_MS = 1_500
_PATIENCE_SECONDS = 20
_SETTLED_SECONDS = 0.2
_RECEIPT = "SELECT postlease.enqueue_email('receipt', ARRAY['reader@example.com'], %s::jsonb)"
_PARAMETERS = json.dumps({"order_number": "A-1", "total": "12.00"})


class LostError(Exception):
    """A mail did not leave."""


def main(line: list[str] | None = None) -> int:
    """Measure both, print both, and say whether both targets are met."""
    arguments.parser("bench.doorbell", __doc__).parse_args(line)
    met = [
        _report("doorbell: start of the transaction to call", doorbell(), DOORBELL_TARGET_MS),
        _report("lingering sweep: commit to call", lingering_sweep(), SWEEP_TARGET_MS, of=max),
    ]
    return 0 if all(met) else 1


def doorbell() -> list[float]:
    """Milliseconds from the start of a sign-up's transaction to its call, one after the other.

    From the start and not from the commit, which nobody outside can see: a few milliseconds more.
    """
    unlimited = {"CLIENT_LIMIT_PER_MINUTE": "0", "CLIENT_LIMIT_PER_HOUR": "0"}
    with Stack(queues=True, settings={"SWEEP_LINGER_SECONDS": "0"} | unlimited) as stack:
        found = []
        for number in range(WARM_UPS + SIGN_UPS):
            called_at = _seconds_of_next_call(stack, partial(_sign_up, stack, number))
            found.append((called_at - _newest_created_at(stack)) * 1000)
            time.sleep(_SETTLED_SECONDS)
        return found[WARM_UPS:]


def lingering_sweep() -> list[float]:
    """Milliseconds from a producer's commit to the call, at moments of no certain rhythm."""
    with Stack() as stack, psycopg.connect(stack.database_url, autocommit=True) as producer:
        threading.Thread(target=stack.run, args=("sweep",), daemon=True).start()
        committed: list[float] = []

        def enqueue() -> None:
            producer.execute(_RECEIPT, [_PARAMETERS])
            committed.append(time.time())

        found = []
        for _ in range(1 + PRODUCED):
            called_at = _seconds_of_next_call(stack, enqueue)
            found.append((called_at - committed[-1]) * 1000)
            time.sleep(random.uniform(_SETTLED_SECONDS, 1))  # noqa: S311  rhythm, not a secret
        return found[1:]


def _seconds_of_next_call(stack: Stack, cause: Callable[[], None]) -> float:
    """When the provider's socket had the request that cause led to, by the wall's clock."""
    before = stack.provider.counts.requests
    arrived: list[float] = []

    def watch() -> None:
        if stack.provider.wait_for(
            lambda counts: counts.requests > before, seconds=_PATIENCE_SECONDS
        ):
            arrived.append(time.time())

    watching = threading.Thread(target=watch)
    watching.start()
    cause()
    watching.join()
    if not arrived:
        raise LostError("a mail did not leave: see the logs")
    return arrived[0]


def _sign_up(stack: Stack, number: int) -> None:
    body = json.dumps({"email": f"reader{number}@example.com"}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{stack.url}/v1/signups", body, headers)  # noqa: S310  loopback
    urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS).close()  # noqa: S310  loopback


def _newest_created_at(stack: Stack) -> float:
    query = "SELECT extract(epoch FROM max(created_at))::float8 FROM postlease.email_messages"
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(query).fetchone()
    if row is None:
        raise LostError("there is no message")
    return float(row[0])


def _report(
    name: str,
    found: list[float],
    target: float,
    *,
    of: Callable[[list[float]], float] = statistics.median,
) -> bool:
    tenths = statistics.quantiles(found, n=10)
    print(
        f"{name}: median {statistics.median(found):.0f} ms, nine of ten within {tenths[-1]:.0f} ms,"
        f" longest {max(found):.0f} ms, of {len(found)}"
        f" (target: {of.__name__} under {target:.0f} ms)",
        flush=True,
    )
    return of(found) < target


if __name__ == "__main__":
    sys.exit(arguments.status("bench.doorbell", main))

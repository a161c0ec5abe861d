"""Whether the time of an answer tells who has an account.

`python -m bench.oracle` runs the local stack, real processes and sockets, with the doorbell on, and
asks each route that takes an address about addresses of four classes: unknown, unverified, verified
and suppressed, in random order, so that whatever slows the machine slows all alike. For every two
classes it prints how often the best single threshold would guess right, where a coin is right in
50 %, and ends with status 1 if that is above the limit anywhere.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import statistics
import sys
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from bench.measuring import arguments
from local.stack import Stack
from postlease import suppression, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUTES = ("/v1/signups", "/v1/verifications/resend", "/v1/password-resets")
CLASSES = ("unknown", "unverified", "verified", "suppressed")
REQUESTS = 2_000
WARM_UPS = 100
LIMIT = 0.55
_PATIENCE_SECONDS = 30
_SHOWN_EVERY = 2_000

_USERS = """
INSERT INTO postlease.users (email, email_canonical, locale, verified_at)
SELECT address, address, 'en', CASE WHEN %(verified)s THEN now() END
FROM unnest(%(addresses)s::text[]) AS known (address)
"""
_SUPPRESSIONS = """
INSERT INTO postlease.suppressions (address_digest, reason)
SELECT digest, 'bounce' FROM unnest(%(digests)s::bytea[]) AS listed (digest)
"""


class AnswerError(Exception):
    """A route did not answer 202."""


@dataclass
class Asked:
    """The addresses of one class on one route, and the seconds that each answer took."""

    addresses: list[str]
    seconds: list[float] = field(default_factory=list)


def main(line: list[str] | None = None) -> int:
    """Measure all routes, print each pair of classes, and say whether all keep to the limit."""
    parser = arguments.parser("bench.oracle", __doc__)
    arguments.count(parser, "requests", REQUESTS, "so many of each class on each route")
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(10_000),
        help="of the order of requests; without it another one each time, which is printed",
    )
    given = parser.parse_args(line)
    print(f"oracle: seed={given.seed} requests={given.requests}", flush=True)
    no_limits = {"CLIENT_LIMIT_PER_MINUTE": "0", "CLIENT_LIMIT_PER_HOUR": "0"}
    with Stack(queues=True, settings=no_limits) as stack:
        kept = [
            _report(route, _ask(stack, route, given.requests, random.Random(given.seed)))  # noqa: S311
            for route in ROUTES
        ]
    return 0 if all(kept) else 1


def best_guess(one: Sequence[float], other: Sequence[float]) -> float:
    """The share of right guesses of the best single threshold between two classes, 0.5 to 1."""
    low, high = sorted(one), sorted(other)
    return max(
        0.5 + abs(bisect_right(low, at) / len(low) - bisect_right(high, at) / len(high)) / 2
        for at in (*low, *high)
    )


def _ask(stack: Stack, route: str, number: int, chance: random.Random) -> dict[str, Asked]:
    """One request after the other over a kept connection, a class at random each time."""
    each = number + WARM_UPS
    name = route.rpartition("/")[2]
    asked = {
        kind: Asked([f"{kind}-{name}-{place}@example.com" for place in range(each)])
        for kind in CLASSES
    }
    _arrange(stack, asked)
    # All shuffled, not round by round: a request is slowed by the mail of the one before it, and in
    # a round that one is never of its own class.
    order = [kind for kind in CLASSES for _ in range(each)]
    chance.shuffle(order)
    addresses = {kind: iter(one.addresses) for kind, one in asked.items()}
    connection = http.client.HTTPConnection(*_address(stack), timeout=_PATIENCE_SECONDS)
    for place, kind in enumerate(order):
        took = _seconds(connection, route, next(addresses[kind]))
        if place >= WARM_UPS * len(CLASSES):
            asked[kind].seconds.append(took)
        if place % _SHOWN_EVERY == 0:
            print(f"  {route}: {place} of {len(order)}", flush=True)
    connection.close()
    return asked


def _arrange(stack: Stack, asked: dict[str, Asked]) -> None:
    """Accounts of the classes that have one, and entries on the suppression list."""
    store = stack.aws.client("secretsmanager")
    pepper = tokens.pepper(store.get_secret_value(SecretId="PepperSecret")["SecretString"])
    digests = [suppression.digest(pepper, address) for address in asked["suppressed"].addresses]
    with psycopg.connect(stack.database_url) as connection:
        for kind in CLASSES[1:]:
            addresses = asked[kind].addresses
            connection.execute(_USERS, {"addresses": addresses, "verified": kind != "unverified"})
        connection.execute(_SUPPRESSIONS, {"digests": digests})
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE postlease.users")


def _seconds(connection: http.client.HTTPConnection, route: str, email: str) -> float:
    body = json.dumps({"email": email}).encode()
    began = time.perf_counter()
    connection.request("POST", route, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - began
    if answer.status != 202:
        raise AnswerError(f"{route} answered {answer.status}")
    return took


def _address(stack: Stack) -> tuple[str, int]:
    host, _, port = stack.url.removeprefix("http://").partition(":")
    return host, int(port)


def _report(route: str, asked: dict[str, Asked]) -> bool:
    print(f"{route}")
    for kind, answers in asked.items():
        print(f"  {kind:<10} median {statistics.median(answers.seconds) * 1000:.2f} ms")
    worst = 0.0
    for one, other in itertools.combinations(CLASSES, 2):
        guess = best_guess(asked[one].seconds, asked[other].seconds)
        worst = max(worst, guess)
        print(f"  {one} or {other}: {guess:.1%} right at best")
    print(f"  worst {worst:.1%} (limit {LIMIT:.0%})", flush=True)
    return worst <= LIMIT


if __name__ == "__main__":
    sys.exit(arguments.status("bench.oracle", main))

"""A worker to be killed: `python doomed.py claims|sends <connection string>`.

It claims what is due and says so, or sends it to a provider that never answers. The rest is
environment.
"""

from __future__ import annotations

import sys
import time

from postlease import config, delivery
from postlease.database import connect
from postlease.delivery import Times
from tests import arrange


def main() -> None:
    """Live until killed."""
    what, conninfo = sys.argv[1:]
    if what == "claims":
        arrange.claim(connect(conninfo), 10)
        sys.stdout.write("claimed\n")
        sys.stdout.flush()
        sys.stdin.readline()
        return
    own = delivery.Connections.new(lambda *, refresh: conninfo)
    now = time.monotonic()
    times = Times(invocation_ends_at=now + 60, linger_until=now)
    delivery.deliver(config.settings(), times, worker="doomed", connections=own)


main()

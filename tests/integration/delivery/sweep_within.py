"""A sweep in a process that may take only so much more memory than it has when it is warm.

`python sweep_within.py <connection string> <bytes>` sends what is due; the rest is environment.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path

from postlease import config, delivery
from postlease.delivery import Times


def sweep(conninfo: str) -> delivery.Tally:
    """One invocation that drains."""
    connections = delivery.Connections.new(lambda *, refresh: conninfo)
    now = time.monotonic()
    times = Times(invocation_ends_at=now + 120, linger_until=now)
    tally = delivery.deliver(config.settings(), times, worker="within", connections=connections)
    connections.discard()
    return tally


def tell(line: str) -> None:
    """Write a line to whoever started this."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Send one message to load all that is loaded late, then the rest within the limit."""
    conninfo, more = sys.argv[1], int(sys.argv[2])
    sweep(conninfo)
    tell("warm")
    sys.stdin.readline()
    size = re.search(r"^VmSize:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert size
    limit = int(size[1]) * 1024 + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    tell(json.dumps(sweep(conninfo).counts))


main()

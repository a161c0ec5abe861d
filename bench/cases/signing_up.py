"""Signing up in process: the function's handler against the SQL of its own transaction."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from bench.measuring.children import Child
from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.measuring.figures import of_percentiles, percentile
from bench.measuring.findings import Finding, Table
from bench.measuring.wording import number

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster
    from bench.measuring.findings import Scale

REQUESTS = 300


def in_process(cluster: Cluster, scale: Scale) -> Finding:
    """The function's handler against the SQL that it sends, request by request in turn."""
    del scale
    home, twin = cluster.postlease("signups"), cluster.postlease("twin")
    login = conninfo_to_dict(home.application)
    secret = {
        "host": login["host"],
        "port": str(login["port"]),
        "dbname": login["dbname"],
        "username": login["user"],
        "password": login["password"],
    }
    asked = {"login": secret, "url": twin.application, "requests": REQUESTS}
    with (
        tempfile.TemporaryDirectory() as folder,
        Child(
            [sys.executable, "-m", "bench.workers.signups", json.dumps(asked)],
            folder=ROOT,
            log=Path(folder) / "signups.log",
            environment={"PYTHONPATH": PYTHONPATH},
        ) as child,
    ):
        child.start()
        took = child.done()
    own, bare = took["own"], took["bare"]
    cluster.drop("signups")
    cluster.drop("twin")
    rows = [
        (
            what,
            *(number(percentile(times, percent)) for percent in (50, 95, 99)),
            number(len(times) / sum(times) * 1_000),
        )
        for what, times in (("handler", own), ("its SQL alone", bare))
    ]
    return Finding(
        "A sign-up in process",
        f"{REQUESTS} sign-ups of new addresses through the function's handler (client limits on,"
        f" doorbell off), and after each its {took['statements']} statements again, in transactions"
        " as its own were, on a twin of its database.",
        (Table(("sign-up", "p50 ms", "p95 ms", "p99 ms", "one after the other, /s"), tuple(rows)),),
        {"signup_vs_sql": of_percentiles(own, bare, 50)},
        {"signup_p50_ms": percentile(own, 50)},
    )

"""What retention leaves behind when it is killed on its way, and what claims notice of it.

`python -m bench.retention` makes a server, an emulated storage and a retention, each in processes
of their own, with so many finished messages, some of which own an object. While messages are
claimed as a sweep does, retention runs and is killed, and runs again to its end. It prints what is
left and how long claims took, and ends with status 1 if a row, an object or an orphan is left, if
the archive lacks or doubles a message, or if the claims' p99 is above twice that of before and
above 20 ms.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import boto3
import psycopg

from bench.cases.rows import finished_up_to, unchecked
from bench.measuring import arguments
from bench.measuring.children import Child, ChildError
from bench.measuring.cluster import PYTHONPATH, ROOT, Cluster, cluster
from bench.measuring.figures import percentile
from bench.peers.own import fill
from bench.workers.storing import CONTENT, DIGEST, PREFIX
from postlease import outbox
from postlease.database import connect

if TYPE_CHECKING:
    from bench.measuring.cluster import Home

BUCKET = "attachments"
DAYS = 30
SLOTS = 10
PAUSE_SECONDS = 0.025
IDLE_CLAIMS = 600
MOST_CLAIMS = 10_000
ENOUGH_MS = 20.0

_LEASE = timedelta(seconds=45)
_ROOM = outbox.Room(24_000_000, alone=True)

OWN: LiteralString = """
INSERT INTO postlease.email_attachments
    (message_id, position, filename, content_type, storage_ref, version_id, size, sha256)
SELECT m.id, 1, 'a.pdf', 'application/pdf', %(prefix)s || '/' || v.place - 1 || '.pdf', v.version,
       %(size)s, decode(%(digest)s, 'hex')
FROM unnest(%(versions)s::text[]) WITH ORDINALITY AS v (version, place)
JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place
      FROM postlease.email_messages WHERE finished_at IS NOT NULL) AS m
    ON m.place = v.place * %(every)s
"""
LEFT: LiteralString = """
SELECT (SELECT count(*) FROM postlease.email_messages WHERE finished_at IS NOT NULL),
       (SELECT count(*) FROM postlease.attachment_deletions)
       + (SELECT count(*) FROM postlease.archive_chunks),
       (SELECT count(*) FROM postlease.email_messages WHERE finished_at IS NULL)
"""
GONE: LiteralString = """
SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'email_messages'
"""
LAPSE: LiteralString = """
UPDATE postlease.retention_duties SET lease_expires_at = now() - interval '1 second'
WHERE lease_owner IS NOT NULL
"""


@dataclass(slots=True)
class Sweep:
    """Claims at a steady pace until it is told to stop, and how long each took."""

    login: str
    milliseconds: list[float] = field(default_factory=list)

    def run(self, most: int, stopped: threading.Event) -> None:
        """Claim up to most times."""
        claimant = outbox.Claimant(f"bench#{uuid.uuid4().hex}", "ses", _LEASE, 5)
        floors = outbox.Floors()
        with connect(self.login) as connection:
            for number in range(most + 1):
                if stopped.is_set():
                    return
                started = time.perf_counter()
                outbox.claim(connection, claimant, slots=SLOTS, room=_ROOM, floors=floors)
                if number:  # the first finds its way
                    self.milliseconds.append((time.perf_counter() - started) * 1_000)
                time.sleep(PAUSE_SECONDS)


def main(line: list[str] | None = None) -> int:
    """Fill, claim, retain, kill, count, print."""
    given = _given(line)
    storage = {"bucket": BUCKET, "objects": given.objects, "orphans": given.orphans}
    with (
        tempfile.TemporaryDirectory() as folder,
        _child("storing", storage, Path(folder)) as storing,
        cluster() as server,
    ):
        endpoint = storing.told["endpoint"]
        home = server.postlease("retention")
        waiting = (IDLE_CLAIMS + MOST_CLAIMS + 2) * SLOTS
        _arrange(server, home, given, storing.told["versions"], waiting)
        idle, beside = Sweep(home.application), Sweep(home.application)
        idle.run(IDLE_CLAIMS, threading.Event())
        asked = {
            "url": home.application,
            "endpoint": endpoint,
            "bucket": BUCKET,
            "mode": given.mode,
            "days": DAYS,
        }
        stopped = threading.Event()
        sweeping = threading.Thread(target=beside.run, args=(MOST_CLAIMS, stopped))
        sweeping.start()
        started = time.monotonic()
        try:
            kills, said = _retain(asked, home, given, Path(folder))
        finally:
            stopped.set()
            sweeping.join()
        seconds = time.monotonic() - started
        return _report(given, home, endpoint, waiting, (kills, said, seconds), (idle, beside))


def _given(line: list[str] | None) -> Any:
    """What was asked for; ends the process with status 2 if that cannot be."""
    parser = arguments.parser("bench.retention", __doc__)
    arguments.count(parser, "messages", 300_000, "finished messages, old enough to leave")
    arguments.count(parser, "objects", 30_000, "so many of them own an object", least=0)
    arguments.count(parser, "orphans", 1_000, "objects that no message owns", least=0)
    arguments.count(parser, "kills", 2, "how often retention is killed on its way", least=0)
    modes = ("delete", "archive")
    parser.add_argument("--mode", choices=modes, default="delete", help="what becomes of them")
    given = parser.parse_args(line)
    if given.objects > given.messages:
        parser.error("--objects: no more than there are --messages")
    return given


def _child(module: str, asked: Any, folder: Path) -> Child:
    return Child(
        [sys.executable, "-m", f"bench.workers.{module}", json.dumps(asked)],
        folder=ROOT,
        log=folder / f"{module}.log",
        environment={"PYTHONPATH": PYTHONPATH},
    )


def _arrange(server: Cluster, home: Home, given: Any, versions: list[str], waiting: int) -> None:
    fill(home.owner, waiting)
    finished_up_to(home.owner, given.messages)
    with unchecked(home.owner) as connection:
        connection.execute(
            OWN,
            {
                "prefix": PREFIX,
                "size": len(CONTENT),
                "digest": DIGEST,
                "versions": versions,
                "every": given.messages // max(given.objects, 1),
            },
        )
    server.calm(home.owner)


def _retain(asked: Any, home: Home, given: Any, folder: Path) -> tuple[int, Any]:
    """Run to the end, killed on the way when so much of the work is done."""
    killed = 0
    with psycopg.connect(home.owner, autocommit=True) as owner:
        for number in range(given.kills):
            mark = given.messages * (number + 1) // (given.kills + 1)
            with _child("keeping", asked, folder) as child:
                child.start()
                while _gone(owner) < mark:
                    time.sleep(0.2)
                os.kill(child.pid, signal.SIGKILL)
                try:
                    child.done()
                except (ChildError, json.JSONDecodeError):
                    killed += 1
            owner.execute(LAPSE)
        with _child("keeping", asked, folder) as child:
            child.start()
            return killed, child.done()


def _gone(owner: psycopg.Connection[Any]) -> int:
    row = owner.execute(GONE).fetchone()
    return int(row[0]) if row else 0


def _report(
    given: Any,
    home: Home,
    endpoint: str,
    waiting: int,
    ran: tuple[int, Any, float],
    sweeps: tuple[Sweep, Sweep],
) -> int:
    """Print what is left and how long claims took; the exit status."""
    kills, said, seconds = ran
    with psycopg.connect(home.owner) as owner:
        [[rows, noted, unfinished]] = owner.execute(LEFT).fetchall()
    uploads, archived, distinct = _stored(endpoint)
    wanted = given.messages if given.mode == "archive" else 0
    idle, beside = (percentile(one.milliseconds, 99) for one in sweeps)
    print(
        f"retention: mode={given.mode} messages={given.messages} objects={given.objects}"
        f" orphans={given.orphans} kills={kills} seconds={seconds:.0f}"
    )
    print(
        f"retention: rows_left={rows} noted_left={noted} objects_left={uploads}"
        f" unfinished_lost={waiting - unfinished} archived={archived} distinct={distinct}"
    )
    print(
        f"retention: claims={len(sweeps[1].milliseconds)} idle_p99={idle:.1f} ms"
        f" beside_p99={beside:.1f} ms"
    )
    is_whole = (
        kills == given.kills
        and said["complete"]
        and (rows, noted, uploads, unfinished) == (0, 0, 0, waiting)
        and archived == distinct == wanted
    )
    return 0 if is_whole and beside <= max(2 * idle, ENOUGH_MS) else 1


def _stored(endpoint: str) -> tuple[int, int, int]:
    """Uploads that are left; messages in the archive's files, and distinct ones."""
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106  nobody looks at it
    )
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET)
    versions = [one for page in pages for one in page.get("Versions", [])]
    ids: list[str] = []
    for one in versions:
        if one["Key"].endswith(".jsonl.gz"):
            found = s3.get_object(Bucket=BUCKET, Key=one["Key"], VersionId=one["VersionId"])
            text = gzip.decompress(found["Body"].read()).decode()
            ids += [json.loads(line)["message"]["id"] for line in text.split("\n")[:-1]]
    s3.close()
    uploads = sum(one["Key"].startswith(PREFIX) for one in versions)
    return uploads, len(ids), len(set(ids))


if __name__ == "__main__":
    sys.exit(arguments.status("bench.retention", main))

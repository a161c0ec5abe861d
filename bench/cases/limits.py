"""What PostgreSQL itself does: pgbench with the same three batched writes on the same table.

Each transaction claims a hundred messages; then they are authorized, then recorded: three
statements, three commits. They set the columns that the product's statements set, to values as
long, and decide nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from bench.cases.draining import Run
from bench.measuring.children import ChildError
from bench.peers.own import LEFT, fill
from local.binaries import find_binaries

if TYPE_CHECKING:
    from bench.measuring.cluster import Cluster

BATCH = 100
CLIENTS = (1, 2, 4)

SCRIPT = f"""
WITH claimed AS (
    UPDATE postlease.email_messages AS m
    SET status = 'sending', lease_owner = 'bench#0123456789abcdef0123456789abcdef',
        claimed_at = now(), lease_expires_at = now() + interval '45 s',
        attempt_count = m.attempt_count + 1
    WHERE m.ctid = ANY (ARRAY(
        SELECT d.ctid FROM postlease.email_messages AS d
        WHERE d.finished_at IS NULL AND d.priority = 50 AND d.available_at <= now()
          AND d.status = 'pending'
        ORDER BY d.available_at, d.id LIMIT {BATCH} FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING m.id, m.template, m.parameters, m.to_addresses
)
SELECT coalesce(array_agg(id), '{{}}') AS ids, count(parameters) AS number FROM claimed \\gset
UPDATE postlease.email_messages AS m SET dispatched_at = now(), provider = 'ses'
WHERE m.id = ANY (':ids'::uuid[]) AND m.status = 'sending';
UPDATE postlease.email_messages AS m
SET status = 'sent', sent_at = now(), finished_at = now(), template_version = 'given',
    provider_message_id = '0100018f-000000000000000000000000000000000000000000000001-000000',
    attempts = m.attempts || jsonb_build_object(
        'attempt', m.attempt_count, 'owner', m.lease_owner, 'claimed_at', m.claimed_at,
        'lease_expires_at', m.lease_expires_at, 'dispatched_at', m.dispatched_at,
        'ended_at', now(), 'outcome', 'accepted', 'code', NULL::text, 'provider', m.provider,
        'provider_message_id', '0100018f-000000000000000000000000000000000000000000000001-000000',
        'refunded', false),
    lease_owner = NULL, claimed_at = NULL, lease_expires_at = NULL
WHERE m.id = ANY (':ids'::uuid[]) AND m.status = 'sending';
"""  # noqa: S608 - a constant


def limit(cluster: Cluster, messages: int, clients: int) -> Run:
    """Drain so many messages with so many connections; the time to connect is not counted."""
    home = cluster.postlease("postlease")
    fill(home.owner, messages)
    cluster.calm(home.owner)
    login = conninfo_to_dict(home.owner)
    environment = os.environ | {
        "PGPASSWORD": str(login["password"]),
        "PGOPTIONS": "-c jit=off",
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "writes.sql"
        script.write_text(SCRIPT)
        before = cluster.read(home.owner)
        ended = subprocess.run(
            [
                find_binaries() / "pgbench",
                *("--no-vacuum", "--protocol=simple", f"--file={script}"),
                *(f"--client={clients}", f"--jobs={min(clients, 2)}"),
                f"--transactions={messages // BATCH // clients}",
                *("--host", str(login["host"]), "--port", str(login["port"])),
                *("--username", str(login["user"]), str(login["dbname"])),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        after = cluster.read(home.owner)
    found = re.search(r"^tps = ([0-9.]+) \(without initial", ended.stdout, re.MULTILINE)
    [left] = cluster.row(home.owner, LEFT)
    if ended.returncode or not found or left:
        raise ChildError(f"pgbench: {left} messages left\n{ended.stdout}{ended.stderr}")
    thousands = messages / 1_000
    return Run(
        messages,
        messages / (float(found[1]) * BATCH),
        0.0,
        (after.processor - before.processor) / thousands,
        (after.commits - before.commits) / messages,
        (after.wal - before.wal) / messages,
        None,
    )

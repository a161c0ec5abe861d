"""The product's delivery in a process of its own: `python -m bench.workers.deliver <JSON>`.

The JSON says `url` (the application's login), `case` (`bytes`: rendered mail is given, the provider
is silent; `silent`: rendered here, the provider is silent; `ses`: all of it), `seconds` that the
silent provider takes, `slots`, and for `profile` a file to write a profile to.
"""

from __future__ import annotations

import contextlib
import cProfile
import resource
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bench.workers import arranging

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Be ready, deliver what is due, say what was done."""
    line, asked = arranging.Line(), arranging.given()
    arranging.deployed(SEND_SLOTS=str(asked["slots"]), **asked.get("variables", {}))
    from bench.workers import standing  # noqa: PLC0415
    from bench.workers.bare import compose  # noqa: PLC0415
    from postlease import config, delivery, providers, rendering  # noqa: PLC0415

    settings = config.settings()
    rendering.templates()
    if asked["case"] != "bytes":
        # Whoever renders without a queue has rendered once, too, before it is measured.
        compose(0)
    replaced: Any = delivery
    if asked["case"] == "bytes":
        replaced.Preparer = standing.GivenBytes
    provider = (
        providers.choose(settings) if asked["case"] == "ses" else standing.Silent(asked["seconds"])
    )
    replaced.providers = SimpleNamespace(choose=lambda _: provider)
    connections = delivery.Connections.new(lambda *, refresh: asked["url"])  # noqa: ARG005
    for database in (connections.claims, connections.verdicts, connections.records):
        database.connection()
    provider.get_ready()
    while line.ready():
        now = time.monotonic()
        with profiled(asked.get("profile")):
            tally = delivery.deliver(
                settings,
                delivery.Times(invocation_ends_at=now + 3_600, linger_until=now),
                worker="bench",
                connections=connections,
            )
        line.done({"counts": dict(tally.counts), "seconds": time.monotonic() - now})
        break
    connections.discard()


@contextlib.contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Profile all threads of the block and write one file for each, if path is there."""
    if not path:
        yield
        return
    profiles: list[cProfile.Profile] = []
    run: Any = threading.Thread.run

    def profiled_run(thread: threading.Thread) -> None:
        profile = cProfile.Profile(time.thread_time)
        profiles.append(profile)
        profile.runcall(run, thread)

    threads: Any = threading.Thread
    threads.run = profiled_run
    own = cProfile.Profile(time.thread_time)
    try:
        own.runcall(lambda: None)
        with own:
            yield
    finally:
        threads.run = run
        for number, profile in enumerate([own, *profiles]):
            with contextlib.suppress(TypeError):  # a thread that did nothing
                profile.dump_stats(f"{path}.{number}")
        print(resource.getrusage(resource.RUSAGE_SELF))


if __name__ == "__main__":
    main()

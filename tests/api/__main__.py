"""`make test-api`: schemathesis against a stack of its own; status 1 if a figure is wrong.

make test-api                           about a minute
make test-api ARGS="--examples 5000"    at least so many requests, and 200 of each documented 2xx
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.stack import ROOT, Stack
from tests.api.pool import Pool, make

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = Path(__file__).with_name("schemathesis.toml")
SETTINGS = {
    "SWEEP_LINGER_SECONDS": "0",
    "CLIENT_LIMIT_PER_MINUTE": "0",
    "CLIENT_LIMIT_PER_HOUR": "0",
    "MAILBOX_LIMIT_PER_HOUR": "0",
    "MAILBOX_LIMIT_PER_DAY": "0",
    "VERIFY_CODES": "on",
}
SHORT_EXAMPLES, SHORT_LEAST = 600, 5
LONG_EXAMPLES, LONG_LEAST = 5_000, 200
MOST_THROTTLED = 0.01


def main() -> int:
    """Run it and tell."""
    parser = argparse.ArgumentParser(prog="make test-api")
    parser.add_argument("--examples", type=int, default=SHORT_EXAMPLES, help="at least so many")
    parser.add_argument("--seed", type=int, help="repeat a run")
    arguments = parser.parse_args()
    least = LONG_LEAST if arguments.examples >= LONG_EXAMPLES else SHORT_LEAST
    description = json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8"))
    each = -(-arguments.examples // varied(description))
    with Stack(settings=SETTINGS) as stack, tempfile.TemporaryDirectory() as folder:
        pool = make(stack, once=least + each)
        reserve = pool.split(least)
        status, counts = explore(stack, pool, Path(folder), each=each, seed=arguments.seed)
        counts += repeat(stack, description, reserve, counts, least)
    return tell(description, counts, status=status, examples=arguments.examples, least=least)


def explore(
    stack: Stack, pool: Pool, folder: Path, *, each: int, seed: int | None
) -> tuple[int, Counter[tuple[str, int, str]]]:
    """Schemathesis' exit status, and its answers by operation, status and problem."""
    pool.save(folder / "pool.json")
    counts = folder / "counts.json"
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG)]
    command += ["run", f"{stack.url}/openapi.json", "--url", stack.url, "--no-color"]
    command += ["--max-examples", str(each), "--generation-database", "none"]
    command += ["--seed", str(seed)] if seed is not None else []
    environment = os.environ | {"API_POOL": str(folder / "pool.json"), "API_COUNTS": str(counts)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    rows = json.loads(counts.read_text())
    return ended.returncode, Counter({(row[0], row[1], row[2]): row[3] for row in rows})


def repeat(
    stack: Stack,
    description: dict[str, Any],
    reserve: Pool,
    counts: Counter[tuple[str, int, str]],
    least: int,
) -> Counter[tuple[str, int, str]]:
    """What is still missing of the documented 2xx, asked for with all checks, from the reserve."""
    import schemathesis  # noqa: PLC0415  its hooks count whatever this process asks

    from tests.api import hooks  # noqa: PLC0415

    hooks.counts.clear()
    schema = schemathesis.openapi.from_url(f"{stack.url}/openapi.json")
    schema.config.update(base_url=stack.url)
    for label, success in successes(description):
        method, path = label.split(" ", 1)
        operation = schema[path][method]
        auth = hooks.Signature() if "security" in operation.definition.raw else None
        for _ in range(2 * least):
            if total(counts + hooks.counts, label, success) >= least:
                break
            operation.Case(**hooks.example(operation, reserve)).call_and_validate(auth=auth)
    return hooks.counts


def varied(description: dict[str, Any]) -> int:
    """How many operations have something to vary: the others are asked once and again."""
    operations = [one for methods in description["paths"].values() for one in methods.values()]
    return sum(bool({"parameters", "requestBody"} & set(one)) for one in operations)


def successes(description: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Every documented 2xx, as operation and status."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            for status in operation["responses"]:
                if status.startswith("2"):
                    yield f"{method.upper()} {path}", int(status)


def total(counts: Counter[tuple[str, int, str]], label: str, status: int) -> int:
    """How often an operation answered a status."""
    return sum(n for (name, code, _), n in counts.items() if (name, code) == (label, status))


def tell(
    description: dict[str, Any],
    counts: Counter[tuple[str, int, str]],
    *,
    status: int,
    examples: int,
    least: int,
) -> int:
    """Print every figure; 1 if one is wrong."""
    for (label, code, problem), number in sorted(counts.items()):
        print(f"{number:7d}  {code}  {label}  {problem}")
    asked = counts.total()
    failed = sum(number for (_, code, _), number in counts.items() if code >= 500)
    throttled = sum(number for (_, code, _), number in counts.items() if code == 429)
    rarest = min(total(counts, *success) for success in successes(description))
    print(
        f"test-api: requests={asked} failures={'none' if status == 0 else 'yes'} 5xx={failed}"
        f" 429={throttled} rarest_2xx={rarest}"
    )
    right = (
        status == 0
        and failed == 0
        and asked >= examples
        and throttled <= asked * MOST_THROTTLED
        and rarest >= least
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

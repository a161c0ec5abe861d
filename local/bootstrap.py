"""Makes the project's virtual environment. Runs on a bare Python 3.11 or newer, nothing installed.

    python3 local/bootstrap.py                      .venv from requirements/dev.txt
    python3 local/bootstrap.py --environment sam    .venv-sam from requirements/sam.txt
    python3.13 local/bootstrap.py --environment lambda    .venv-lambda, what Lambda's runtime brings
    python3.13 local/bootstrap.py --environment emulator    .venv-emulator, for 3.13 alone
    python3 local/bootstrap.py --environment peers    .venv-peers, what the bench compares with

A second call finds its stamp and returns at once without writing anything, whatever Python calls:
to change an environment's Python, remove the environment first.
"""

import sys

# Before anything that an older Python could stumble over.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("error: Python 3.11 or newer is needed, this is " + sys.version.split()[0])

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {
    "dev": ".venv",
    "sam": ".venv-sam",
    "lambda": ".venv-lambda",
    "emulator": ".venv-emulator",
    "peers": ".venv-peers",
}
STAMP = "postlease-stamp"


class BootstrapError(Exception):
    """The environment cannot be made; the text is one line and says what to do."""


def wanted_stamp(requirements: Path) -> str:
    """What a finished environment for these requirements says about itself."""
    return hashlib.sha256(requirements.read_bytes()).hexdigest()


def is_ready(environment: Path, requirements: Path) -> bool:
    """Whether environment is complete and current. Reads only."""
    try:
        stamp = (environment / STAMP).read_text().partition(" ")[0]
    except OSError:
        return False
    # The interpreter behind the link may be gone, or out of this user's reach.
    runs = os.access(environment / "bin" / "python", os.X_OK)
    return runs and stamp == wanted_stamp(requirements)


def make_environment(environment: Path, requirements: Path) -> None:
    """Build environment anew under an exclusive lock; a half-made one is replaced."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise BootstrapError(
                f"this Python has no {module}: install it (Debian: apt install python3-venv)"
            )
    lock_path = environment.with_name(environment.name + ".lock")
    try:
        lock = lock_path.open("w")
    except OSError as error:
        raise BootstrapError(
            f"{environment.name} is missing, outdated or made with a Python that you cannot run, "
            f"and cannot be made in {environment.parent}: {error.strerror}"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another call is making {environment.name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(environment, requirements):
            _build(environment, requirements)


def _build(environment: Path, requirements: Path) -> None:
    if environment.exists():
        say(f"removing the unfinished or outdated {environment.name}")
        shutil.rmtree(environment)
    say(f"making {environment.name} with Python {sys.version.split()[0]}")
    _run([sys.executable, "-m", "venv", str(environment)], "the virtual environment")
    say(f"installing {requirements.parent.name}/{requirements.name}")
    python = str(environment / "bin" / "python")
    # The lock is complete, and older pips stumble over extras when they resolve what is hashed.
    install = [python, "-m", "pip", "install", "--no-deps", "--require-hashes"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*install, *quiet, "-r", str(requirements)], "the packages")
    # Written last and moved into place: there is a stamp only where all before it went well.
    draft = environment / (STAMP + ".new")
    draft.write_text(f"{wanted_stamp(requirements)} by Python {sys.version.split()[0]}\n")
    draft.replace(environment / STAMP)
    say(f"{environment.name} is ready")


def _run(command: list[str], what: str) -> None:
    # PYTHON* settings of the caller's would leak into the new environment's own Python.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_"))}
    if subprocess.run(command, check=False, env=environment).returncode:
        raise BootstrapError(f"{what} could not be made; the lines above say why")


def say(line: str) -> None:
    """Print one step."""
    print(f"bootstrap: {line}", flush=True)


def main() -> int:
    """Make the environment that the arguments name, unless it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--environment", choices=sorted(ENVIRONMENTS), default="dev")
    chosen = parser.parse_args().environment
    environment = ROOT / ENVIRONMENTS[chosen]
    requirements = ROOT / "requirements" / f"{chosen}.txt"
    try:
        if not is_ready(environment, requirements):
            make_environment(environment, requirements)
    except BootstrapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

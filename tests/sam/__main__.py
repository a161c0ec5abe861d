"""Writes the events that SAM generates: `make sam-samples`."""

from __future__ import annotations

from tests.sam.conftest import SAMPLES, ask, samples


def main() -> None:
    """Replace all files of SAMPLES."""
    wanted = samples(ask())
    for old in SAMPLES.glob("*.json"):
        old.unlink()
    for name, text in wanted.items():
        (SAMPLES / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()

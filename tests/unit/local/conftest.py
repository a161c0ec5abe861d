"""Small functions of a test's own, under the real runtime client."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from local.functions import Function
from local.keeper import Keeper
from local.runtime import FunctionDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """Ends what the test's own end leaves behind."""
    kept = Keeper()
    yield kept
    kept.close()


@pytest.fixture
def make_function(tmp_path: Path, keeper: Keeper) -> Iterator[Callable[..., Function]]:
    """Makes a function from the source of its app.py."""
    made: list[Function] = []

    def make(source: str, *, name: str = "sample", **changes: Any) -> Function:
        root = tmp_path / "functions" / name
        root.mkdir(parents=True)
        (root / "app.py").write_text(textwrap.dedent(source))
        wish: dict[str, Any] = {"timeout": 5, "memory": 128, "concurrency": 2, "environment": {}}
        definition = FunctionDefinition(
            name=name, root=root, handler="app.handler", search_path=(), **(wish | changes)
        )
        made.append(Function(definition, keeper=keeper, log=tmp_path / f"{name}.log"))
        return made[-1]

    yield make
    for function in made:
        function.close()

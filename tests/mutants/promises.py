"""Running another test's promise against a mutant."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from postlease.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load(test: str) -> Callable[..., None]:
    """The test function behind `module.function` of the integration tests."""
    module, _, name = test.rpartition(".")
    found: Callable[..., None] = getattr(
        importlib.import_module(f"tests.integration.{module}"), name
    )
    return found


def passes(test: Callable[..., None], arguments: dict[str, Any]) -> bool:
    """Whether the test's promise holds; any exception but bad SQL says that it does not."""
    try:
        test(**arguments)
    except DatabaseError as error:
        if (error.sqlstate or "").startswith("42"):
            raise AssertionError("the mutant is not valid SQL") from None
        return False
    except psycopg.Error as error:
        # 42501: what a function without its owner's rights meets.
        if (error.sqlstate or "").startswith("42") and error.sqlstate != "42501":
            raise AssertionError("the mutant is not valid SQL") from None
        return False
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - a broken promise shows in any way
        return False
    return True


def arguments_of(
    test: Callable[..., None], request: pytest.FixtureRequest, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What test is called with: given, and fixtures for the rest."""
    wanted = [name for name in inspect.signature(test).parameters if name not in given]
    return {name: request.getfixturevalue(name) for name in wanted} | dict(given)

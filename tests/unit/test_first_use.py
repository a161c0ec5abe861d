"""Packages that load a module with the first use of one of its names."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from local.stack import ROOT
from postlease.first_use import on_first_use

SOURCE = ROOT / "layers" / "postlease" / "python"
PACKAGES = [
    ".".join(path.parent.relative_to(SOURCE).parts)
    for path in sorted(SOURCE.glob("postlease/**/__init__.py"))
    if "on_first_use(" in path.read_text("utf-8")
]


def told(package: str) -> set[tuple[str, str]]:
    """What a package imports for type checkers: names, each with the module that it is from."""
    path = SOURCE.joinpath(*package.split("."), "__init__.py")
    tree = ast.parse(path.read_text("utf-8"))
    [block] = (node for node in tree.body if isinstance(node, ast.If))
    return {
        (alias.name, str(statement.module))
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def offered(package: str) -> set[str]:
    """The names that a package finds when it is asked for them."""
    find = inspect.getclosurevars(vars(importlib.import_module(package))["__getattr__"])
    return set(find.nonlocals["home"])


def test_the_rooms_with_most_modules_are_such_packages() -> None:
    assert {"postlease", "postlease.accounts", "postlease.model", "postlease.outbox"} <= {*PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_offers_what_type_checkers_see_and_nothing_else(package: str) -> None:
    seen = {name for name, module in told(package) if module != package}  # the others are modules
    assert offered(package) == seen


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_is_the_one_of_its_module(package: str) -> None:
    for name, module in told(package):
        found = getattr(importlib.import_module(package), name)
        if module == package:
            assert found is importlib.import_module(f"{package}.{name}")
        else:
            assert found is getattr(importlib.import_module(module), name)


def test_a_package_s_modules_are_found_without_their_own_import() -> None:
    find = on_first_use("postlease.mime", filenames="")
    assert find("filenames") is importlib.import_module("postlease.mime.filenames")


def test_an_unknown_name_is_told_with_its_package() -> None:
    with pytest.raises(AttributeError, match=r"module 'postlease\.mime' has no attribute 'send'"):
        on_first_use("postlease.mime", composing="compose")("send")

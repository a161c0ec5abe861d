"""Packages whose modules are loaded with the first use of one of their names (PEP 562).

Every cold start pays for what is imported at the top, and no invocation uses all of a room. Whoever
needs a name each time imports it by `from postlease.room import name`: it is loaded with him, while
the function starts. `room.name` within a function waits until it is asked for.

Type checkers do not see this: a package imports the same names for them, and a test compares.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_first_use(package: str, **modules: str) -> Callable[[str], object]:
    """The `__getattr__` of package: its modules, and the names that each of them gives the package.

    The import system's locks make it safe between threads, and it keeps nothing itself.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> object:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find

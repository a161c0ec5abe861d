"""Which PostgreSQL server a stack is on: whoever left a DATABASE_URL exported is told."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from local import postgres
from local.__main__ import not_taken
from local.keeper import Keeper
from local.own_database import OwnDatabase, OwnDatabaseError
from local.stack import ROOT
from local.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY_LISTENS = "postgresql://ada:geheim@127.0.0.1:1/shop"


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """Cleans up what a process leaves behind."""
    with contextlib.closing(Keeper()) as running:
        yield running


def refusal(keeper: Keeper, server_url: str | None) -> str:
    """What a stack is told of a server that it cannot use."""
    with pytest.raises(OwnDatabaseError) as told, contextlib.ExitStack() as started:
        OwnDatabase(server_url, keeper=keeper, started=started)
    return str(told.value)


def test_a_server_that_cannot_be_used_is_told_with_the_variable_that_names_it(
    monkeypatch: pytest.MonkeyPatch, keeper: Keeper
) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY_LISTENS)
    text = refusal(keeper, None)
    assert text.startswith("cannot create a database on the server of DATABASE_URL: ")
    assert "geheim" not in text


def test_the_variable_is_not_blamed_for_a_server_that_a_caller_chose(
    monkeypatch: pytest.MonkeyPatch, keeper: Keeper
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://somewhere/else")
    assert "DATABASE_URL" not in refusal(keeper, NOBODY_LISTENS)


def test_a_setting_that_dev_does_not_hand_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    required = "FromAddress PublicUrl AllowedOrigin DatabaseHost DatabaseOwnerSecretArn Stage"
    parameters = dict.fromkeys(required.split(), "x")
    template = Template(ROOT / "template.yaml", parameters=parameters)
    for name in ("LEASE_SECONDS", "VERIFY_CODES", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "40")
    assert not_taken(template) == ["LEASE_SECONDS"]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (NOBODY_LISTENS, "127.0.0.1:1, as ada"),
        ("postgresql:///shop", "localhost:5432, as the default user"),
    ],
)
def test_a_server_is_told_without_its_password(url: str, text: str) -> None:
    assert postgres.told(url) == text

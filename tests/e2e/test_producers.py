"""The examples of docs/producers.md against the running stack, as they stand on the page.

Each rolls back one transaction, which mails nobody, and commits one, which mails one receipt with
its file. The example in Node runs in `make test-node`.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any, LiteralString, cast

import psycopg
import pytest
import sqlalchemy

from local.binaries import find_binaries
from local.stack import Stack
from tests import shop as shops
from tests.conftest import SQL
from tests.shop import TAKEN, Shop, example

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBER, EMAIL = "A-1001", "ada@example.com"


@pytest.fixture(scope="module")
def product(server_url: str) -> Iterator[Stack]:
    """The product, swept by hand alone."""
    with Stack(database_url=server_url, settings={"SWEEP_LINGER_SECONDS": "0"}) as stack:
        yield stack


@pytest.fixture
def shop(product: Stack) -> Iterator[Shop]:
    with shops.opened(product) as opened:
        yield opened


def place_order(heading: str) -> Callable[..., None]:
    """The function of that name in an example."""
    names: dict[str, Any] = {}
    exec(compile(example(heading), heading, "exec"), names)  # noqa: S102 - our own page
    found: Callable[..., None] = names["place_order"]
    return found


def psql(shop: Shop, script: str, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run a script as the shop."""
    return subprocess.run(
        [
            find_binaries() / "psql",
            "--no-psqlrc",
            "--quiet",
            *(f"--set={name}={value}" for name, value in variables.items()),
            shop.login,
        ],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )


def test_psql_mails_what_it_commits_and_nothing_that_it_rolls_back(shop: Shop) -> None:
    receipt = shop.receipt()
    names = ("storage_ref", "version_id", "size", "sha256")
    variables = {"email": EMAIL} | {name: receipt[name] for name in names}
    refused = psql(shop, example("psql"), number=TAKEN, **variables)
    assert refused.returncode == 3
    assert "orders_pkey" in refused.stderr
    shop.expect_nothing()
    done = psql(shop, example("psql"), number=NUMBER, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    shop.expect_one(NUMBER, EMAIL)


@pytest.mark.parametrize("heading", ["Python with psycopg", "Python with the layer"])
def test_python_mails_what_it_commits_and_nothing_that_it_rolls_back(
    shop: Shop, heading: str
) -> None:
    order, receipt = place_order(heading), shop.receipt()
    with psycopg.connect(shop.login) as connection:
        with pytest.raises(psycopg.errors.UniqueViolation, match="orders_pkey"):
            order(connection, TAKEN, EMAIL, receipt)
        shop.expect_nothing()
        order(connection, NUMBER, EMAIL, receipt)
        mail = shop.expect_one(NUMBER, EMAIL)
    headers = dict(mail["headers"])
    assert ("Ada Lovelace" in headers["To"]) == (heading == "Python with the layer")


def test_sqlalchemy_mails_what_it_commits_and_nothing_that_it_rolls_back(shop: Shop) -> None:
    order, receipt = place_order("Python with SQLAlchemy"), shop.receipt()
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(shop.login)
    )
    try:
        with pytest.raises(sqlalchemy.exc.IntegrityError, match="orders_pkey"):
            order(engine, TAKEN, EMAIL, receipt)
        shop.expect_nothing()
        order(engine, NUMBER, EMAIL, receipt)
        shop.expect_one(NUMBER, EMAIL)
    finally:
        engine.dispose()


def test_a_trigger_mails_what_is_committed_and_nothing_that_is_rolled_back(shop: Shop) -> None:
    with psycopg.connect(shop.login) as connection:
        connection.execute(cast("LiteralString", example("A trigger")))
        connection.commit()
        insert: LiteralString = "INSERT INTO orders VALUES (%s, %s)"
        connection.execute(insert, [NUMBER, EMAIL])
        connection.rollback()
        shop.expect_nothing()
        connection.execute(insert, [NUMBER, EMAIL])
        connection.commit()
    shop.expect_one(NUMBER, EMAIL, attached=False)


def test_the_batch_of_the_page_is_taken(shop: Shop) -> None:
    text = shops.PAGE.read_text("utf-8")
    code = re.search(r"^## Batches\n\n```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code
    with psycopg.connect(shop.login) as connection:
        rows = connection.execute(cast("LiteralString", code[1])).fetchall()
    assert [row[0] for row in rows] == [0, 1]


def test_the_page_says_what_every_refusal_means() -> None:
    """As the error says it."""
    source = SQL.joinpath("functions/refuse_message.sql").read_text("utf-8")
    told = dict(re.findall(r"WHEN '(email_\w+)' THEN\s+'((?:[^']|'')*)'", source))
    page = re.findall(
        r"^\| `(email_\w+)`(?: \(`23505`\))? \| (.*) \|$",
        shops.PAGE.read_text("utf-8"),
        re.MULTILINE,
    )
    assert dict(page) == {name: meaning.replace("''", "'") for name, meaning in told.items()}


def test_the_page_names_every_argument(shop: Shop) -> None:
    text = shops.PAGE.read_text("utf-8")
    section = text[text.index("## What can be said") : text.index("## Batches")]
    listed = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)))
    row = shop.owner.execute(
        "SELECT proargnames AS names FROM pg_proc WHERE proname = 'enqueue_email'"
    ).fetchone()
    assert row
    assert listed == list(row["names"])

"""The example in Node of docs/producers.md against the running stack, as it stands on the page.

It rolls back one transaction, which mails nobody, and commits one, which mails one receipt with its
file.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from local.stack import Stack
from tests import shop as shops
from tests.shop import TAKEN, Shop, example

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("order.mjs")
NUMBER, EMAIL = "A-1001", "ada@example.com"


@pytest.fixture
def shop(server_url: str) -> Iterator[Shop]:
    """A shop at the product, which is swept by hand alone."""
    with (
        Stack(database_url=server_url, settings={"SWEEP_LINGER_SECONDS": "0"}) as stack,
        shops.opened(stack) as opened,
    ):
        yield opened


def url(shop: Shop) -> str:
    """The shop's login as pg reads it."""
    part = {
        name: quote(str(value), safe="") for name, value in conninfo_to_dict(shop.login).items()
    }
    return f"postgres://{part['user']}:{part['password']}@{part['host']}:{part['port']}/{part['dbname']}"


def test_node_mails_what_it_commits_and_nothing_that_it_rolls_back(
    shop: Shop, tmp_path: Path
) -> None:
    placing = tmp_path / "placing.mjs"
    placing.write_text(example("Node with pg"))
    receipt = shop.receipt()

    def place(number: str) -> subprocess.CompletedProcess[str]:
        order = json.dumps({"number": number, "email": EMAIL, "receipt": receipt})
        return subprocess.run(
            ["node", SCRIPT, placing.as_uri(), url(shop), order],
            capture_output=True,
            text=True,
            check=False,
        )

    refused = place(TAKEN)
    assert (refused.returncode, refused.stderr) == (3, "23505 orders_pkey\n")
    shop.expect_nothing()
    done = place(NUMBER)
    assert (done.returncode, done.stderr) == (0, "")
    shop.expect_one(NUMBER, EMAIL)

"""`python -m tests.releases` tells the story on a throw-away server and writes its files.

They are those of the release that pyproject.toml names. One that has its tag stays as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from psycopg.conninfo import make_conninfo

from local import postgres
from local.aws import Aws
from local.keeper import Keeper
from local.runtime import REGION
from local.signatures import ACCESS_KEY, SECRET_KEY
from postlease import migrations
from postlease.database import Database, connect
from tests import producers
from tests.releases import snapshot
from tests.releases.actors import Actors
from tests.releases.recording import record

ROOT = Path(__file__).parents[2]
SQL = ROOT / "sql"


def environment(aws: Aws) -> dict[str, str]:
    """What a function of a deployment has in its environment, with secrets in the emulated AWS."""
    keys = {"current": "k1", "k1": "a-key-of-the-story-" * 3}
    return {
        "AWS_ENDPOINT_URL": aws.endpoint_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "STAGE": "local",
        "PUBLIC_URL": "https://mail.example.com",
        "FROM_ADDRESS": "noreply@example.com",
        "ATTACHMENTS_BUCKET": "attachments",
        "DATABASE_SECRET_ARN": "none",
        "TOKEN_KEYS_SECRET_ARN": aws.create_secret("keys", json.dumps(keys)),
        "PEPPER_SECRET_ARN": aws.create_secret("pepper", "pepper-of-the-story-" * 3),
        "VERIFY_CODES": "on",
    }


def told() -> snapshot.Snapshot:
    """The story of the code as it is."""
    with contextlib.ExitStack() as left:
        folder = Path(left.enter_context(tempfile.TemporaryDirectory()))
        keeper = Keeper()
        left.callback(keeper.close)
        aws = left.enter_context(Aws(keeper, folder / "aws.log"))
        os.environ.update(environment(aws))
        server = left.enter_context(postgres.Server())
        url = postgres.create_database(server.url, "story")
        password = postgres.application_password(server.url)
        owner = left.enter_context(connect(url))
        migrations.migrate(owner, SQL)
        migrations.set_application_password(owner, password)
        login = make_conninfo(url, user=migrations.APPLICATION_ROLE, password=password)
        application = Database(lambda *, refresh: login)
        left.callback(application.discard)
        shop = left.enter_context(producers.login(url))
        with connect(shop) as producer:
            return record(Actors(application, producer, owner))


def is_released(version: str, root: Path = ROOT) -> bool:
    """Whether the version has its tag."""
    found = subprocess.run(
        ["git", "tag", "--list", f"v{version}"], cwd=root, capture_output=True, check=True
    )
    return bool(found.stdout.strip())


def main() -> int:
    """Write the release's snapshot in place of all earlier ones."""
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    folder = snapshot.FOLDER / project["version"]
    if is_released(folder.name):
        sys.stderr.write(f"error: {folder.name} is released: what it said is not written anew\n")
        return 1
    snapshot.write(told(), folder)
    for other in snapshot.folders():
        if other != folder:
            shutil.rmtree(other)
    sys.stdout.write(f"snapshot: {folder.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

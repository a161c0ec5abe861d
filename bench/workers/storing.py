"""An emulated S3 in a process of its own: `python -m bench.workers.storing <JSON>`.

The JSON says `bucket`, how many `objects` lie in it that messages own, and how many `orphans` that
nobody does, two days old. Says its `endpoint` and the `versions` of the objects, in their order.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from bench.workers import arranging

CONTENT = b"%PDF-"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PREFIX = "attachments/uploads/bench"


def main() -> None:
    """Serve until the bench has no more to say."""
    line, asked = arranging.Line(), arranging.given()
    import boto3  # noqa: PLC0415
    from moto.core.models import DEFAULT_ACCOUNT_ID  # noqa: PLC0415
    from moto.s3.models import s3_backends  # noqa: PLC0415
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",  # noqa: S106  nobody looks at it
    )
    s3.create_bucket(Bucket=asked["bucket"])
    s3.put_bucket_versioning(Bucket=asked["bucket"], VersioningConfiguration={"Status": "Enabled"})
    # Behind the socket: thirty thousand requests would take minutes.
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    versions = [
        backend.put_object(asked["bucket"], f"{PREFIX}/{number}.pdf", CONTENT).version_id
        for number in range(asked["objects"])
    ]
    for number in range(asked["orphans"]):
        orphan = backend.put_object(asked["bucket"], f"{PREFIX}/orphan-{number}.pdf", CONTENT)
        orphan.last_modified = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=2)
    line.ready({"endpoint": endpoint, "versions": versions})
    line.done(None)
    line.ready()
    server.stop()


if __name__ == "__main__":
    main()

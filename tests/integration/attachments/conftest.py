"""A versioned bucket of the emulated storage; retention knows it too."""

from tests.integration.retention.conftest import bucket, storage_away

__all__ = ["bucket", "storage_away"]

"""HTTP API events in, HTTP answers out.

request   what a caller sent, read by the operation that it asks for
shapes    a body's members checked by what the operation says of them
router    from path and method to a view; every error becomes a problem document
"""

from postlease.http.request import MAXIMUM_BODY_BYTES, Request
from postlease.http.router import Answer, Router, View

__all__ = ["MAXIMUM_BODY_BYTES", "Answer", "Request", "Router", "View"]

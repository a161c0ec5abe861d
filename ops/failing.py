"""Why a command ends without having done what it was asked for, and its exit status.

0  done
1  the API refused: the state of things does not allow it, or a value is wrong
2  the command line is wrong (click's own)
3  there is no such message, gate or entry
4  no credentials, or they may not do this
5  the API could not be reached, or could not answer now: try again
6  not confirmed; nothing was changed
130  interrupted by Ctrl-C
"""

from __future__ import annotations

from typing import Any

REFUSED, USAGE, UNKNOWN, FORBIDDEN, UNAVAILABLE, UNCONFIRMED = 1, 2, 3, 4, 5, 6
INTERRUPTED = 130


class OpsError(Exception):
    """Ends a command; the text is for whoever typed it and holds no address and no secret.

    problem is the API's slug, where it named one.
    """

    def __init__(self, text: str, status: int, *, problem: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.problem = problem

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {"exit": self.status, "problem": self.problem, "detail": str(self)}

"""The pages that a mail's link opens: whole documents, with the policy that they need to run.

    verifying   the page behind a verification's link, its form, and what the form is answered
    resetting   the page that hands a reset's token on to the application
    languages   what they say, and which of our languages a reader is shown
    reference   the description of the API, for programs and as a page
    documents   text and pieces to one document, and the headers that belong to it

A page asks for nothing but itself, changes nothing by being looked at, and keeps the token in the
fragment until a person presses the button. Nothing that a request brings is written into one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from postlease.first_use import on_first_use

if TYPE_CHECKING:
    from postlease.pages import reference
    from postlease.pages.documents import Page
    from postlease.pages.resetting import reset
    from postlease.pages.verifying import refused, token_in, verified, verify
else:
    __getattr__ = on_first_use(
        __name__,
        documents="Page",
        reference="",
        resetting="reset",
        verifying="refused token_in verified verify",
    )

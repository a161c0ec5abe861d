"""The pages that a mail's link opens: whole documents, with the policy that they need to run.

    verifying   the page behind a verification's link, its form, and what the form is answered
    resetting   the page that hands a reset's token on to the application
    languages   what they say, and which of our languages a reader is shown
    documents   text and pieces to one document, and the headers that belong to it

A page asks for nothing but itself, changes nothing by being looked at, and keeps the token in the
fragment until a person presses the button. Nothing that a request brings is written into one.
"""

from postlease.pages.documents import Page
from postlease.pages.resetting import reset
from postlease.pages.verifying import refused, token_in, verified, verify

__all__ = ["Page", "refused", "reset", "token_in", "verified", "verify"]

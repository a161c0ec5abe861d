"""Which of our languages a reader is shown, and everything that the pages say in each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(
    r"([A-Za-z]{1,8}|\*)(?:-[A-Za-z0-9]{1,8})*(?:\s*;\s*[qQ]=([01](?:\.[0-9]{0,3})?))?"
)
_LONGEST_HEADER = 1000


@dataclass(frozen=True, slots=True)
class Words:
    """All texts of all pages in one language. Plain text: whoever writes HTML escapes it."""

    language: str
    verify_title: str
    verify_ask: str
    verify_button: str
    waiting: str
    again: str
    verified_title: str
    verified: str
    go_on: str
    expired_title: str
    superseded_title: str
    superseded: str
    invalid_title: str
    invalid: str
    code_title: str
    code: str
    field_title: str
    field: str
    trouble_title: str
    crowded_title: str
    crowded: str
    ask_again: str
    without_script: str
    paste_link: str
    link_label: str
    paste_code: str
    email_label: str
    code_label: str
    reset_title: str
    reset_ask: str
    reset_button: str
    reset_invalid: str
    reset_without_script: str


_EN = Words(
    language="en",
    verify_title="Confirm your email address",
    verify_ask=(
        "Press the button to confirm that this address is yours. Nothing happens until you do."
    ),
    verify_button="Confirm my address",
    waiting="One moment…",
    again="That did not work just now. Please try again in a moment.",
    verified_title="Your email address is confirmed",
    verified="Thank you. You can close this page.",
    go_on="Continue",
    expired_title="This link is too old",
    superseded_title="A newer link was sent to you",
    superseded="Only the link in the newest mail works. Please open that one.",
    invalid_title="This link is not complete",
    invalid="Please open it from the mail once more, or copy all of it.",
    code_title="This code does not work",
    code=(
        "It may be mistyped, older than ten minutes, or tried too often. The link in the same mail "
        "still works."
    ),
    field_title="Please check what you wrote",
    field="The address must be the one that the mail was sent to, all of it.",
    trouble_title="That did not work just now",
    crowded_title="Too many tries",
    crowded="Please wait a few minutes, then try again.",
    ask_again="For a new mail, ask for it where you signed up; it comes within a few minutes.",
    without_script="Without JavaScript this page cannot read the link by itself.",
    paste_link="Copy the whole link out of the mail and paste it here.",
    link_label="Link from the mail",
    paste_code="Write your address and the code from the mail.",
    email_label="Email address",
    code_label="Code (six digits)",
    reset_title="Choose a new password",
    reset_ask="Press the button to go to where you choose a new password:",
    reset_button="Continue",
    reset_invalid=(
        "Please open it from the mail once more. For a new mail, ask again for a new password."
    ),
    reset_without_script=(
        "This page needs JavaScript to hand your link on. Please switch it on for this page, or "
        "open the link in another browser."
    ),
)

_DE = Words(
    language="de",
    verify_title="E-Mail-Adresse bestätigen",
    verify_ask=(
        "Mit der Schaltfläche bestätigen Sie, dass diese Adresse Ihnen gehört. Vorher geschieht "
        "nichts."
    ),
    verify_button="Adresse bestätigen",
    waiting="Einen Moment…",
    again="Das hat gerade nicht geklappt. Bitte versuchen Sie es gleich noch einmal.",
    verified_title="Ihre E-Mail-Adresse ist bestätigt",
    verified="Vielen Dank. Sie können diese Seite schließen.",
    go_on="Weiter",
    expired_title="Dieser Link ist zu alt",
    superseded_title="Sie haben einen neueren Link bekommen",
    superseded="Nur der Link in der neuesten Mail gilt. Bitte öffnen Sie diesen.",
    invalid_title="Dieser Link ist nicht vollständig",
    invalid="Bitte öffnen Sie ihn noch einmal aus der Mail, oder kopieren Sie ihn ganz.",
    code_title="Dieser Code gilt nicht",
    code=(
        "Vielleicht ist er vertippt, älter als zehn Minuten oder zu oft versucht worden. Der Link "
        "in derselben Mail gilt weiterhin."
    ),
    field_title="Bitte prüfen Sie Ihre Eingabe",
    field="Die Adresse muss die sein, an die die Mail ging, und vollständig.",
    trouble_title="Das hat gerade nicht geklappt",
    crowded_title="Zu viele Versuche",
    crowded="Bitte warten Sie einige Minuten und versuchen Sie es dann noch einmal.",
    ask_again=(
        "Eine neue Mail bekommen Sie dort, wo Sie sich angemeldet haben; sie kommt in wenigen "
        "Minuten."
    ),
    without_script="Ohne JavaScript kann diese Seite den Link nicht selbst lesen.",
    paste_link="Kopieren Sie den ganzen Link aus der Mail und fügen Sie ihn hier ein.",
    link_label="Link aus der Mail",
    paste_code="Geben Sie Ihre Adresse und den Code aus der Mail ein.",
    email_label="E-Mail-Adresse",
    code_label="Code (sechs Ziffern)",
    reset_title="Neues Passwort wählen",
    reset_ask="Mit der Schaltfläche kommen Sie dorthin, wo Sie ein neues Passwort wählen:",
    reset_button="Weiter",
    reset_invalid=(
        "Bitte öffnen Sie ihn noch einmal aus der Mail. Für eine neue Mail fordern Sie noch einmal "
        "ein neues Passwort an."
    ),
    reset_without_script=(
        "Diese Seite braucht JavaScript, um Ihren Link weiterzugeben. Bitte schalten Sie es für "
        "diese Seite ein, oder öffnen Sie den Link in einem anderen Browser."
    ),
)

LANGUAGES = {words.language: words for words in (_EN, _DE)}


def words_for(accept_language: str | None) -> Words:
    """The words in the language that the header asks for most, English where it asks for none."""
    weights: dict[str, float] = {}
    for part in (accept_language or "")[:_LONGEST_HEADER].split(","):
        if match := _RANGE.fullmatch(part.strip()):
            weight = float(match[2] or 1)
            weights.setdefault(match[1].lower(), weight)
    # A star stands for every language that is not named; English is the first of ours.
    known = {name: weights.get(name, weights.get("*", 0.0)) for name in LANGUAGES}
    best = max(known, key=lambda name: known[name])
    return LANGUAGES[best] if known[best] > 0 else _EN

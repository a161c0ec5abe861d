"""One message as a body asks for it, checked, and written as the enqueue functions take it.

Everything that can be known without the database or the storage is refused here, in one go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from postlease import addresses, attachments, rendering, strict_json
from postlease.config import settings
from postlease.errors import InvalidInputError, RefusedInputError, TemplateError
from postlease.messages import reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from postlease.faults import Faults

MOST_RECIPIENTS = 50
MOST_PARAMETERS = 64 * 1024
"""Bytes of the parameters as PostgreSQL writes jsonb."""

_WITH_TOKEN = ("verify_email", "reset_password")
_AS_THEY_COME = ("template", "locale", "delivery", "idempotency_key", "cancel_scope", "tags")
_RESERVED = re.compile("postlease-", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """row has the members that the enqueue functions want, but for what `wanted` becomes."""

    row: dict[str, Any] = field(repr=False)
    wanted: list[attachments.Wanted] = field(repr=False)
    pointer: str


def read(body: Mapping[str, Any], faults: Faults, pointer: str) -> Asked:
    """The message that body, of the described shape, asks for; what is wrong goes into faults."""
    said = {name: value for name, value in body.items() if value is not None}
    row: dict[str, Any] = {name: said[name] for name in _AS_THEY_COME if name in said}
    row["parameters"] = said.get("parameters", {})
    if "priority" in said:
        row["priority"] = int(said["priority"])
    row |= _recipients(said, faults, pointer)
    row |= _moments(said, faults, pointer)
    row |= _senders(said, faults, pointer)
    for name in said.get("tags", {}):
        if _RESERVED.match(name):
            place = strict_json.child(f"{pointer}/tags", name)
            faults.add(RefusedInputError(place, "the name is taken"))
    _check_template(row, faults, pointer, names_sender="from" in said)
    wanted = [
        attachments.Wanted(
            pointer=f"{pointer}/attachments/{place}",
            **{name: value for name, value in one.items() if value is not None},
        )
        for place, one in enumerate(said.get("attachments", []))
    ]
    _check_content_ids(wanted, faults)
    return Asked(row, wanted, pointer)


def _recipients(said: Mapping[str, Any], faults: Faults, pointer: str) -> dict[str, Any]:
    found: dict[str, list[str]] = {"to": [], "cc": [], "bcc": []}
    names: dict[str, str] = {}
    seen: set[str] = set()
    for group, deliverable in found.items():
        for place, mailbox in enumerate(said.get(group, [])):
            at, name, text = _parts(mailbox, f"{pointer}/{group}/{place}")
            with faults.noted():
                address = addresses.parse(text, pointer=at)
                if address.canonical in seen:
                    raise RefusedInputError(at, "this address stands twice in the message")
                seen.add(address.canonical)
                deliverable.append(address.deliverable)
                if name:
                    names[address.canonical] = name
        if sum(map(len, found.values())) > MOST_RECIPIENTS:
            detail = f"to, cc and bcc have more than {MOST_RECIPIENTS} recipients together"
            faults.add(RefusedInputError(f"{pointer}/{group}", detail))
            break
    return {"names": names, **{f"{group}_addresses": boxes for group, boxes in found.items()}}


def _senders(said: Mapping[str, Any], faults: Faults, pointer: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, member in (("from", "from_address"), ("reply_to", "reply_to")):
        if name not in said:
            continue
        at, shown, text = _parts(said[name], f"{pointer}/{name}")
        with faults.noted():
            address = addresses.parse(text, pointer=at)
            if name == "from" and address.canonical not in settings().allowed_senders:
                raise RefusedInputError(at, "is none of the senders that are allowed")
            found[member] = _mailbox(shown, address.deliverable, f"{pointer}/{name}/name")
    return found


def _parts(mailbox: Any, pointer: str) -> tuple[str, str, str]:
    """Where the address stands, the name before it, the address."""
    if isinstance(mailbox, str):
        return pointer, "", mailbox
    return f"{pointer}/email", (mailbox.get("name") or "").strip(), mailbox["email"]


def _mailbox(name: str, address: str, pointer: str) -> str:
    """`"name" <address>`; the quotes keep those that the name itself may have."""
    if not name:
        return address
    text = f'"{name}" <{address}>'
    try:
        addresses.parse_sender(text, pointer=pointer)
    except InvalidInputError as error:
        raise RefusedInputError(error.pointer, error.detail) from None
    return text


def _moments(said: Mapping[str, Any], faults: Faults, pointer: str) -> dict[str, str]:
    found = {}
    for name in ("send_at", "expires_at"):
        if name in said:
            with faults.noted():
                found[name] = reading.stated_moment(said[name], pointer=f"{pointer}/{name}")
    if len(found) == 2 and found["expires_at"] <= found["send_at"]:
        faults.add(RefusedInputError(f"{pointer}/expires_at", "must be later than send_at"))
    return {name: moment.isoformat() for name, moment in found.items()}


def _check_template(
    row: Mapping[str, Any], faults: Faults, pointer: str, *, names_sender: bool
) -> None:
    template, parameters = row["template"], row["parameters"]
    # As jsonb is written; a number of a hundred digits is longer there, and refused there.
    size = len(json.dumps(parameters, ensure_ascii=False).encode())
    if size > MOST_PARAMETERS:
        faults.add(RefusedInputError(f"{pointer}/parameters", "are larger than 64 kB"))
    elif template in _WITH_TOKEN:
        detail = "carries a token: only the routes for accounts send it"
        faults.add(RefusedInputError(f"{pointer}/template", detail))
    else:
        templates = rendering.templates()
        try:
            sender = templates.declaration(template).sender
            refusals = templates.refusals(
                template, row.get("locale", rendering.FALLBACK_LOCALE), parameters
            )
        except TemplateError as error:
            missing = error.code == "template_missing"
            detail = "there is no such template" if missing else "the template cannot be used"
            faults.add(RefusedInputError(f"{pointer}/template", detail))
        else:
            # The message's own sender comes before the template's.
            listed = settings().allowed_senders
            if sender and not names_sender and sender.address.lower() not in listed:
                detail = "its sender is none of those that are allowed"
                faults.add(RefusedInputError(f"{pointer}/template", detail))
            for place, detail in refusals:
                faults.add(RefusedInputError(f"{pointer}{place}", detail))


def _check_content_ids(wanted: list[attachments.Wanted], faults: Faults) -> None:
    seen: set[str] = set()
    for one in wanted:
        if one.content_id in seen:
            faults.add(RefusedInputError(f"{one.pointer}/content_id", "stands twice"))
        seen |= {one.content_id} if one.content_id else set()

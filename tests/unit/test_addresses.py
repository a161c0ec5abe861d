"""What counts as an address, and in which form it is kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postlease.addresses import masked, parse, parse_sender
from postlease.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "deliverable"),
    [
        ("user@example.com", "user@example.com"),
        ("First.Last+tag@EXAMPLE.com", "First.Last+tag@example.com"),
        ("Postmaster@example.com", "Postmaster@example.com"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("user@münchen.example", "user@xn--mnchen-3ya.example"),
        ("user@faß.example", "user@xn--fa-hia.example"),
        ("user@XN--MNCHEN-3YA.example", "user@xn--mnchen-3ya.example"),
        ("user@日本語。example", "user@xn--wgv71a119e.example"),
        ("user@demo.test", "user@demo.test"),
        ("x" * 64 + "@example.com", "x" * 64 + "@example.com"),
    ],
)
def test_mail_goes_to_the_address_as_given_with_its_domain_in_a_labels(
    text: str, deliverable: str
) -> None:
    address = parse(text, pointer="/email")
    assert address.deliverable == deliverable
    assert address.canonical == deliverable.lower()


@pytest.mark.parametrize(
    "text",
    [
        " user@example.com ",
        "user@example.com\n",
        "\tuser@example.com\r\n",
        "user@example.com\u00a0",
    ],
)
def test_whitespace_around_an_address_is_trimmed(text: str) -> None:
    """SGN-04."""
    assert parse(text, pointer="/email").deliverable == "user@example.com"


def test_addresses_that_differ_in_case_alone_are_one_account_and_no_others_are() -> None:
    texts = [
        "Jane.Doe@example.com",
        "jane.doe@EXAMPLE.com",
        "janedoe@example.com",
        "jane.doe+a@example.com",
    ]
    canonical = [parse(text, pointer="/email").canonical for text in texts]
    assert canonical[0] == canonical[1]
    assert len(set(canonical)) == 3


REFUSED = {
    "nothing": "",
    "blanks": " \n",
    "no at": "user.example.com",
    "no local part": "@example.com",
    "no domain": "user@",
    "zero width space first": "\u200buser@example.com",
    "zero width space inside": "user@exam\u200bple.com",
    "byte order mark": "\ufeffuser@example.com",
    "soft hyphen": "user@exam\u00adple.com",
    "hangul filler": "us\u3164er@example.com",
    "variation selector": "user@exam\ufe0fple.com",
    "bidi override": "user\u202e@example.com",
    "NUL and more": "a@example.com\u0000 junk",
    "NUL last": "a@example.com\u0000",
    "unit separator last": "a@example.com\x1f",
    "next line last": "a@example.com\x85",
    "line separator": "a@example.com\u2028",
    "header injection": "a@example.com\r\nBcc: b@example.com",
    "Greek question mark": "victim+test\u037eattacker@example.com",
    "Greek varia": "x\u1fefy@example.com",
    "lone surrogate": "a@\ud83d.com",
    "emoji domain": "a@\U0001f600.example",
    "non-ASCII local part": "jörg@example.com",
    "curly apostrophe": "o\u2019brien@example.com",
    "semicolon list": "a@example.com;b@example.net",
    "comma list": "a@example.com, b@example.net",
    "two addresses": "a@example.com b@example.net",
    "display name": "Smith, Jane <jane@example.com>",
    "angle brackets": "<jane@example.com>",
    "comment": "jane(comment)@example.com",
    "two ats": "a@b@example.com",
    "quoted word": '"ab"@example.com',
    "quoted space": '"a b"@example.com',
    "quoted second address": '"victim@evil.example x"@example.com',
    "quoted smuggled parameter": '"a@evil.example> ORCPT=b@evil.example"@example.com',
    "encoded word": "=?utf-8?q?ada=40example.org?=@example.com",
    "long local part": "x" * 65 + "@example.com",
    "long label": "a@" + "x" * 64 + ".com",
    "very long": "a" * 100_000 + "@example.com",
    "very long domain": "a@" + "x." * 5_000 + "com",
    "too long together": "a" * 64 + "@" + ("x" * 60 + ".") * 4 + "com",
    "domain begins with a period": "aa@.com",
    "domain ends with a period": "a@example.com.",
    "two periods": "a..b@example.com",
    "hyphen first": "a@-x.com",
    "address as a domain": "a@1.2.3.4",
    "address literal": "a@[192.0.2.1]",
    "bad A-label": "a@xn--zz.com",
    "underscore": "a@foo_bar.com",
    "one label": "a@com",
    "test alone": "a@test",
    "localhost": "a@localhost",
    "below localhost": "a@x.localhost",
    "invalid": "a@x.invalid",
    "local": "a@x.local",
    "onion": "a@x.onion",
    "arpa": "a@1.in-addr.arpa",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_one_sendable_address_is_refused_with_its_pointer_and_without_its_text(
    text: str,
) -> None:
    """SGN-04, SGN-05, SGN-07, SGN-08, MIM-06, RCP-03."""
    parse("warm@example.com", pointer="/email")
    started = time.process_time()
    with pytest.raises(InvalidInputError) as caught:
        parse(text, pointer="/to/0")
    assert time.process_time() - started < 0.05
    assert caught.value.pointer == "/to/0"
    assert caught.value.detail
    assert caught.value.__cause__ is None
    for part in text.strip().split("@"):
        assert len(part) < 4 or part not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a@example.com, b@example.net",
        "a@example.com;b@example.net",
        "Ada <ada@example.com>",
        '"Lovelace, Ada" <ada@example.com>',
        "<ada@example.com>",
    ],
)
def test_a_list_or_a_name_is_called_that_whatever_stands_between(text: str) -> None:
    with pytest.raises(InvalidInputError, match="one address only, without a name"):
        parse(text, pointer="/to/0")


@pytest.mark.parametrize("text", ['"a, b"@example.com', '"<"@example.com'])
def test_what_is_quoted_is_no_list(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"invisible|quoted part"):
        parse(text, pointer="/to/0")


def test_a_local_part_outside_ascii_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidInputError, match="outside ASCII before the @"):
        parse("jörg@example.com", pointer="/email")


@given(st.text(max_size=90) | st.builds("{}@{}".format, st.text(max_size=20), st.text(max_size=30)))
def test_any_text_is_either_refused_or_one_ascii_address(text: str) -> None:
    try:
        address = parse(text, pointer="/email")
    except InvalidInputError:
        return
    assert address.deliverable.isascii()
    assert address.deliverable.isprintable()
    assert address.deliverable.count("@") == 1
    assert not set(address.deliverable) & set(' ;,<>()[]"\\:')
    again = parse(address.deliverable, pointer="/email")
    assert again == address


def test_an_address_does_not_print_itself() -> None:
    assert "jane" not in repr(parse("jane@example.com", pointer="/email"))
    assert "jane" not in repr(parse_sender("Jane <jane@example.com>", pointer="/from"))


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("mail@example.com", "", "mail@example.com"),
        ("Acme <mail@example.com>", "Acme", "mail@example.com"),
        ('"Acme, Inc." <mail@example.com>', "Acme, Inc.", "mail@example.com"),
        (" Почта 📬 <mail@пример.example> ", "Почта 📬", "mail@xn--e1afmkfd.example"),
        ("<mail@example.com>", "", "mail@example.com"),
        ('" <mail@example.com>', '"', "mail@example.com"),
    ],
)
def test_a_sender_may_carry_a_name(text: str, name: str, address: str) -> None:
    sender = parse_sender(text, pointer="/from")
    assert (sender.name, sender.address) == (name, address)


@pytest.mark.parametrize(
    "text",
    [
        "Eve\r\nBcc: x@example.com <mail@example.com>",
        "Eve\u2028 <mail@example.com>",
        "x" * 129 + " <mail@example.com>",
        "Acme <mail>",
        "Acme mail@example.com>",
        "Acme",
    ],
)
def test_a_sender_with_an_unusable_name_or_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_sender(text, pointer="/from")
    assert caught.value.pointer == "/from"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ada@example.com", "a***@example.com"),
        ("a@example.com", "a***@example.com"),
        ("@example.com", "***@example.com"),
        ("", "***"),
        ("gone", "***"),
    ],
)
def test_a_masked_address_keeps_its_domain_and_one_letter(address: str, shown: str) -> None:
    assert masked(address) == shown

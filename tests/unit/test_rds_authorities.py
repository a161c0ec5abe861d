"""Whom `verify-full` trusts on RDS and Aurora."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import postlease

BUNDLE = Path(postlease.__file__).parent / "rds.pem"
NAME = re.compile(r"Amazon RDS [a-z]+-[a-z]+-\d Root CA (RSA2048|RSA4096|ECC384) G1")


def authorities() -> list[dict[str, object]]:
    """What a TLS client finds in the bundle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(BUNDLE)
    return list(context.get_ca_certs())


def common_names(certificate: dict[str, object], who: str) -> list[str]:
    parts = dict(pair for [pair] in certificate[who])  # type: ignore[attr-defined]
    return [parts["commonName"], parts["organizationName"]]


def test_every_certificate_of_the_bundle_is_a_root_of_rds_once() -> None:
    found = authorities()
    names = [common_names(certificate, "subject") for certificate in found]
    assert len(found) == BUNDLE.read_text().count("-----BEGIN CERTIFICATE-----")
    assert len({name for name, _ in names}) == len(names)
    for certificate, (name, organization) in zip(found, names, strict=True):
        assert common_names(certificate, "issuer") == [name, organization]
        assert organization == "Amazon Web Services, Inc."
        assert re.fullmatch(
            r"Amazon RDS [a-z]+-[a-z]+-\d Root CA (RSA2048|RSA4096|ECC384) G1", name
        )


def test_every_region_of_the_bundle_has_all_three_kinds_of_key() -> None:
    kinds: dict[str, set[str]] = {}
    for certificate in authorities():
        _, _, region, _, _, kind, _ = common_names(certificate, "subject")[0].split()
        kinds.setdefault(region, set()).add(kind)
    assert set(map(frozenset, kinds.values())) == {frozenset({"RSA2048", "RSA4096", "ECC384"})}

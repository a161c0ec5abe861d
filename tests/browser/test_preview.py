"""The pictures of the mails, and that each fits on a phone."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from local.mails import preview
from postlease.rendering import SHIPPED, Templates

if TYPE_CHECKING:
    from pathlib import Path

OURS = Templates(SHIPPED)
OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"
DIRECTION = "return getComputedStyle(document.querySelector('h1')).direction"


def size(picture: Path) -> tuple[int, int]:
    """Width and height that a PNG's header tells."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


def test_a_preview_shows_each_mail_as_text_as_html_and_in_four_pictures(tmp_path: Path) -> None:
    page = preview.write(OURS, ["password_changed"], tmp_path / "preview")
    shown = page.read_text("utf-8")
    for name, mail in preview.mails(OURS, ["password_changed"]):
        assert (page.parent / f"{name}.html").read_text("utf-8") == mail.html
        assert (page.parent / f"{name}.txt").read_text("utf-8") == mail.text
        for width in preview.WIDTHS:
            light, dark = (page.parent / f"{name}.{width}.{s}.png" for s in preview.SCHEMES)
            assert size(light) == size(dark)
            assert size(light)[0] == width
            assert light.read_bytes() != dark.read_bytes()
            assert {f'src="{light.name}"' in shown, f'src="{dark.name}"' in shown} == {True}
    assert len(list(preview.mails(OURS, ["password_changed"]))) == 6


def test_every_mail_fits_on_a_narrow_phone_and_runs_as_its_language_does(tmp_path: Path) -> None:
    with preview.camera() as taking:
        size = {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": False}
        taking.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for name, mail in preview.mails(OURS, OURS.names()):
            page = tmp_path / f"{name}.html"
            page.write_text(mail.html, "utf-8")
            taking.get(page.as_uri())
            assert taking.execute_script(OVERFLOW) <= 0, name
            right_to_left = ".ar." in name
            assert taking.execute_script(DIRECTION) == ("rtl" if right_to_left else "ltr"), name

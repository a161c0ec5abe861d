"""Every mail as a person will see it: HTML, text and pictures, with a page that shows them all."""

from __future__ import annotations

import base64
import contextlib
import shutil
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from local import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from postlease.model import RenderedMail
    from postlease.rendering import Templates

SCHEMES = ("light", "dark")
WIDTHS = (640, 360)

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A mail fetches nothing; what tries to finds no address.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Templates</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ margin: 2rem; }}
h2 {{ margin: 3rem 0 0; }}
p {{ margin: .25rem 0 1rem; }}
.pictures {{ display: flex; gap: 1rem; overflow-x: auto; align-items: flex-start; }}
img {{ border: 1px solid #8886; border-radius: 6px; height: auto; }}
</style></head><body><h1>Templates</h1>
{}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """One mail of the preview; name is what its files are called."""

    name: str
    subject: str
    pictures: tuple[str, ...]


def write(templates: Templates, names: list[str], folder: Path) -> Path:
    """Write all that names render to into folder, which is emptied first; the page that shows it.

    Without a Chromium there are no pictures. TemplateError for what does not render.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shown = []
    with camera() as taking:
        for name, mail in mails(templates, names):
            (folder / f"{name}.html").write_text(mail.html, "utf-8")
            (folder / f"{name}.txt").write_text(mail.text, "utf-8")
            pictures = tuple(_photograph(taking, folder, name)) if taking else ()
            shown.append(Shown(name, " ".join(mail.subject.split()), pictures))
    page = folder / "index.html"
    page.write_text(_PAGE.format("\n".join(map(_section, shown))), "utf-8")
    return page


def mails(templates: Templates, names: list[str]) -> Iterator[tuple[str, RenderedMail]]:
    """Each template in each language with each sample: `receipt.ar.sample`, and the mail."""
    for template in names:
        for sample, parameters in templates.samples(template).items():
            for locale in templates.locales(template):
                name = f"{template}.{locale}.{sample.removesuffix('.json')}"
                yield name, templates.render(template, locale, parameters)


@contextlib.contextmanager
def camera() -> Iterator[Any]:
    """A Chromium that takes pictures, or None where there is none."""
    found = chromium.find()
    if found is None:
        yield None
        return
    from selenium import webdriver  # noqa: PLC0415
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = str(found.browser)
    for flag in _FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(str(found.driver)))
    try:
        yield driver
    finally:
        driver.quit()


def _photograph(taking: Any, folder: Path, name: str) -> Iterator[str]:
    """A picture of the whole mail for each width, in the light and in the dark."""
    taking.get((folder / f"{name}.html").as_uri())
    for width in WIDTHS:
        size = {"width": width, "height": 100, "deviceScaleFactor": 1, "mobile": False}
        taking.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for scheme in SCHEMES:
            feature = {"name": "prefers-color-scheme", "value": scheme}
            taking.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            seen = taking.execute_cdp_cmd(
                "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True}
            )
            picture = f"{name}.{width}.{scheme}.png"
            (folder / picture).write_bytes(base64.b64decode(seen["data"]))
            yield picture


def _section(one: Shown) -> str:
    pictures = "".join(f'<img src="{escape(p)}" alt="{escape(p)}">' for p in one.pictures)
    name = escape(one.name)
    return (
        f'<h2 dir="auto">{escape(one.subject)}</h2>\n<p>{name}: <a href="{name}.html">HTML</a>, '
        f'<a href="{name}.txt">text</a></p>\n<div class="pictures">{pictures}</div>'
    )

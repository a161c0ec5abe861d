"""What an attachment may be called, and how a reader sees it."""

from __future__ import annotations

import re
import unicodedata

from postlease.mime.headers import guard

FORBIDDEN_EXTENSIONS = frozenset(
    (  # noqa: SIM905 - as a list it would be 90 lines
        "ade adp app asp bas bat cer chm cmd com cpl crt csh der exe fxp gadget hlp hta inf ins isp"
        " its js jse ksh lib lnk mad maf mag mam maq mar mas mat mau mav maw mda mdb mde mdt mdw"
        " mdz msc msh msh1 msh1xml msh2 msh2xml mshxml msi msp mst ops pcd pif plg prf prg ps1"
        " ps1xml ps2 ps2xml psc1 psc2 reg scf scr sct shb shs sys tmp url vb vbe vbs vps vsmacros"
        " vss vst vsw vxd ws wsc wsf wsh xnk"
    ).split()
)
"""What SES refuses to carry ("Amazon SES unsupported attachment types"), and Resend does too."""

_UNSHOWABLE = re.compile("[\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Invisible or turning the reading direction: `\u202egpj.exe` would look like a picture."""

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

_LONGEST = 200
"""Bytes of UTF-8: every mail program and file system can keep it."""

_LONGEST_ENDING = 20


def is_forbidden_filename(name: str) -> bool:
    """Whether a file of that name is refused by providers, or opens as what they refuse.

    Only the last extension counts: `report.exe.pdf` is a PDF everywhere. It is looked at as the
    reader's system will: without case, trailing dots and blanks and invisible characters, in its
    compatibility form, and after the cut of a name that is too long.
    """
    shown = unicodedata.normalize("NFKC", _shown(_CONTROLS.sub("", name))).rstrip(" .")
    _, dot, extension = shown.rpartition(".")
    return bool(dot) and extension.casefold() in FORBIDDEN_EXTENSIONS


def shown_filename(name: str) -> str:
    """The last part of a path, without what misleads a reader; never empty, `.` or `..`.

    TemplateError `invalid_header` for a control character, a line separator or a lone surrogate.
    """
    return _shown(guard(name, header="Content-Disposition"))


def ascii_filename(name: str) -> str:
    """A stand-in short enough that it needs no RFC 2231 itself; it keeps the name's end."""
    return re.sub(r"[^A-Za-z0-9 !#$&()+,.;=@^_`{}~-]", "_", name)[-40:]


def _shown(name: str) -> str:
    name = re.split(r"[/\\]", name)[-1]
    # Readers decode what looks like an encoded word, even here (RFC 2047, 5 forbids it).
    name = _UNSHOWABLE.sub("", name).strip().replace("=?", "=_")
    if not name.strip("."):
        return "attachment"
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending.encode(errors="replace")) > _LONGEST_ENDING:
        stem, dot, ending = name, "", ""
    room = _LONGEST - len((dot + ending).encode(errors="replace"))
    return stem.encode(errors="replace")[:room].decode(errors="ignore") + dot + ending

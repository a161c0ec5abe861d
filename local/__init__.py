"""The local stack: PostgreSQL, an emulated AWS and every function, on one machine without Docker.

    __main__                              `python -m local dev | demo | postgres`
    demo  evidence                        the story, and the figures counted from what it left
    stack                                 composes all of the below
    resources  definitions                what the template declares, made here
    gateway  schedules                    what triggers a function
    console/                              pages to look at all of it, buttons, an API
    functions  runtime                    worker processes under the real runtime client
    aws  provider  sendemail  inbox       moto; a mail provider with faults on the wire
    template  cloudformation  events  signatures  web
    postgres  binaries                    a throw-away server
    keeper                                ends what a killed parent left behind

`bootstrap.py` stands alone: it makes the virtual environment that the rest runs in.
"""

import sys
from pathlib import Path

# What the code layer does on Lambda: the product's package can be imported, installed nowhere.
_LAYER = str(Path(__file__).resolve().parent.parent / "layers" / "postlease" / "python")
if _LAYER not in sys.path:
    sys.path.append(_LAYER)

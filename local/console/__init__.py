"""What only the local stack has, under `/_local/`.

routes      which address answers what, and to whom
interface   the API: JSON
bodies      what the API's bodies may say
pages       the pages
"""

from local.console.routes import PREFIX, Console

__all__ = ["PREFIX", "Console"]

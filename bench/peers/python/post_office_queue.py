"""django-post-office: batches of a thousand, five threads, a hundred where the provider is slow."""

from __future__ import annotations

import sys
import time
from typing import Any
from urllib.parse import urlsplit

import django
import line
from django.conf import settings
from django.core.mail.backends.base import BaseEmailBackend

compose = line.composer() if line.COMPOSES else None


class Backend(BaseEmailBackend):
    """A provider that accepts everything after so many seconds."""

    def send_messages(self, messages: list[Any]) -> int:
        """Accept them; what was stored as rendered is rendered and built here once more."""
        if compose:
            for message in messages:
                compose(message.to[0], {"order_number": message.subject[12:], "total": "12.00"})
        if line.SECONDS:
            time.sleep(line.SECONDS)
        return len(messages)


def configure() -> None:
    """Django with nothing but the queue."""
    sys.modules["post_office_bench"] = sys.modules["__main__"]
    where = urlsplit(line.URL)
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": where.path[1:],
                "USER": where.username,
                "PASSWORD": where.password,
                "HOST": where.hostname,
                "PORT": where.port,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        SECRET_KEY="bench",  # noqa: S106  nothing is signed
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        USE_TZ=True,
        LOGGING_CONFIG=None,
        POST_OFFICE={
            "BACKENDS": {"default": "post_office_bench.Backend"},
            "BATCH_SIZE": 1_000,
            "THREADS_PER_PROCESS": 100 if line.SECONDS else 5,
            "LOG_LEVEL": 0,
            "CELERY_ENABLED": False,
        },
    )
    django.setup()


def main() -> None:
    """Fill or drain."""
    configure()
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from django.core.management import call_command  # noqa: PLC0415
    from post_office import mail, models  # noqa: PLC0415

    if line.MODE == "fill":
        call_command("migrate", verbosity=0)
        models.Email.objects.all().delete()
        for numbers in line.batches():
            mail.send_many(
                [
                    {
                        "sender": "noreply@example.com",
                        "recipients": line.payload(number)["to_addresses"],
                        "subject": f"Receipt for A-{number}",
                        "message": "12.00",
                        "html_message": "<p>12.00</p>",
                    }
                    for number in numbers
                ]
            )
        return
    models.Email.objects.count()
    with tempfile.TemporaryDirectory() as folder:
        line.ready()
        mail.send_queued_mail_until_done(str(Path(folder) / "lock"), processes=1, log_level=0)
        line.done()


main()

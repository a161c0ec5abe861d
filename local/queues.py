"""Lambda's part for SQS: polls a queue, invokes its function, deletes what is done.

What failed stays in the queue and is seen again when its visibility timeout is over; the queue
itself counts and moves to the dead letters what came too often.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from local.events import failed_messages, queue_event
from local.runtime import Result, ThrottledError

if TYPE_CHECKING:
    from local.functions import Function
    from local.template import QueueSource

LONGEST_POLL_SECONDS = 20
_PATIENCE_SECONDS = 30
_PAUSE_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class Poller:
    """Brings one queue's messages to one function from `start` to `close`, or once by hand."""

    def __init__(
        self,
        source: QueueSource,
        function: Function,
        sqs: Any,
        *,
        url: str,
        poll_seconds: int = LONGEST_POLL_SECONDS,
    ) -> None:
        self._source = source
        self._function = function
        self._sqs = sqs
        self._url = url
        self._poll_seconds = poll_seconds
        self._closed = threading.Event()

    def start(self) -> None:
        """Begin to poll: no more batches are under way at once than the source allows."""
        for _ in range(self._source.concurrency):
            threading.Thread(target=self._follow, daemon=True).start()

    def close(self) -> None:
        """Take no new batch; what runs already is not stopped."""
        self._closed.set()

    def once(self, *, patience: float) -> Result:
        """Bring what waits now, up to one batch, and answer the function's result.

        An empty queue is an empty batch, which Lambda would not send. ThrottledError when no
        worker is free for patience seconds.
        """
        return self._bring(self._receive(wait=0), patience=patience)

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                if messages := self._receive(wait=self._poll_seconds):
                    self._bring(messages, patience=_PATIENCE_SECONDS)
            except (BotoCoreError, ClientError):
                self._closed.wait(_PAUSE_SECONDS)  # the queue is away, or the stack is ending
            except ThrottledError:
                self._closed.wait(_PAUSE_SECONDS)  # the messages come again by themselves
            except Exception:  # a thread that dies leaves its queue standing still, unseen
                if not self._closed.is_set():
                    _logger.exception("a batch of %s was not brought", self._source.function)
                self._closed.wait(_PAUSE_SECONDS)

    def _receive(self, *, wait: int) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=self._source.batch_size,
            WaitTimeSeconds=wait,
            AttributeNames=["All"],
        )
        return list(answer.get("Messages", ()))

    def _bring(self, messages: list[dict[str, Any]], *, patience: float) -> Result:
        event = queue_event(self._source.queue, messages)
        result = self._function.invoke(event, patience=patience)
        for receipt in self._done(messages, result):
            # Gone already, or given out again meanwhile: then it is somebody else's.
            with contextlib.suppress(ClientError):
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)
        return result

    def _done(self, messages: list[dict[str, Any]], result: Result) -> list[str]:
        """The receipts of the messages that need not come again."""
        if result.error is not None:
            return []
        failed: set[str] = set()
        if self._source.reports:
            failed = failed_messages(_value(result), [m["MessageId"] for m in messages])
        return [m["ReceiptHandle"] for m in messages if m["MessageId"] not in failed]


def _value(result: Result) -> Any:
    """The answer; what is no JSON names nothing that anybody knows."""
    try:
        return result.value
    except ValueError:
        return "not JSON"

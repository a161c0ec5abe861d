"""A queue reaches its function as Lambda brings it: again until it is done, and not for ever."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from local.aws import Aws, queue_arn
from local.events import failed_messages
from local.keeper import Keeper
from local.queues import Poller
from local.runtime import ThrottledError
from local.template import QueueSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from local.functions import Function
    from local.runtime import Result

NOTE = """
    import os, json

    def note(word):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(word + chr(10))
"""
ECHO = (
    NOTE
    + """
    def handler(event, context):
        note(json.dumps(event))
"""
)
SLOW = (
    NOTE
    + """
    import time

    def handler(event, context):
        note("in")
        while os.path.exists(os.environ["GATE"]):
            time.sleep(0.01)
        note("out")
"""
)
FAILING = (
    NOTE
    + """
    def handler(event, context):
        note("came")
        raise ValueError("as asked")
"""
)
PARTIAL = (
    NOTE
    + """
    def handler(event, context):
        for record in event["Records"]:
            note(record["body"] + record["attributes"]["ApproximateReceiveCount"])
        return {"batchItemFailures": [
            {"itemIdentifier": r["messageId"]} for r in event["Records"] if r["body"] == "bad"
        ]}
"""
)


def until(condition: Callable[[], bool], *, seconds: float = 20) -> bool:
    """Whether condition holds before the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Queue:
    """One queue of the emulated SQS and the poller in front of a function."""

    def __init__(self, aws: Aws, notes: Path, make: Callable[..., Function]) -> None:
        self.sqs = aws.client("sqs")
        self._aws = aws
        self._make = make
        self.notes_file = notes
        self.name = secrets.token_hex(4)
        self.url = ""
        self.pollers: list[Poller] = []

    def open(self, *, visibility: int = 1, receives: int | None = None) -> str:
        """Make the queue; with receives, also its dead letters, whose URL is answered."""
        self.url = self._aws.create_queue(self.name, {"VisibilityTimeout": visibility})
        if receives is None:
            return ""
        dead = self._aws.create_queue(f"{self.name}-dead", {})
        target = queue_arn(f"{self.name}-dead")
        policy = {"deadLetterTargetArn": target, "maxReceiveCount": receives}
        self._aws.redrive(self.url, policy)
        return dead

    def poller(
        self, source: str, *, concurrency: int = 2, reports: bool = True, **environment: str
    ) -> Poller:
        """A poller in front of a function of that source."""
        variables = {"NOTES": str(self.notes_file), **environment}
        function = self._make(source, environment=variables, concurrency=4)
        arn = queue_arn(self.name)
        wanted = QueueSource(arn, "sample", 10, concurrency=concurrency, reports=reports)
        self.pollers.append(Poller(wanted, function, self.sqs, url=self.url, poll_seconds=1))
        return self.pollers[-1]

    def put(self, *bodies: str) -> None:
        """Send messages."""
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def notes(self) -> list[str]:
        """What the function noted."""
        return self.notes_file.read_text().splitlines() if self.notes_file.exists() else []

    def left(self, url: str | None = None) -> int:
        """The messages of a queue, seen or unseen."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=url or self.url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)


@pytest.fixture(scope="module")
def module_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """One emulated AWS for the module."""
    keeper = Keeper()
    with Aws(keeper, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws
    keeper.close()


@pytest.fixture
def queue(
    module_aws: Aws, tmp_path: Path, make_function: Callable[..., Function]
) -> Iterator[Queue]:
    """A queue that is not open yet."""
    made = Queue(module_aws, tmp_path / "notes", make_function)
    yield made
    for poller in made.pollers:
        poller.close()
    made.sqs.close()


def test_a_message_arrives_in_sqs_s_shape_and_is_gone_when_it_is_done(queue: Queue) -> None:
    queue.open()
    queue.poller(ECHO).start()
    queue.put("hello")
    assert until(lambda: queue.notes() != [])
    [record] = json.loads(queue.notes()[0])["Records"]
    assert (record["body"], record["eventSource"]) == ("hello", "aws:sqs")
    assert record["eventSourceARN"].endswith(f":{queue.name}")
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert record["attributes"]["SentTimestamp"].isdigit()
    assert record["md5OfBody"] == hashlib.md5(b"hello", usedforsecurity=False).hexdigest()
    assert until(lambda: queue.left() == 0)


def test_what_is_put_while_the_poll_waits_arrives_at_once(queue: Queue) -> None:
    queue.open()
    queue.poller(PARTIAL).start()
    queue.put("first")
    assert until(lambda: queue.notes() == ["first1"])
    started = time.monotonic()
    queue.put("second")
    assert until(lambda: queue.notes() == ["first1", "second1"])
    assert time.monotonic() - started < 0.9, "it waited for the next poll"


def test_a_failed_batch_comes_again_when_the_visibility_timeout_is_over(queue: Queue) -> None:
    queue.open(visibility=1)
    queue.poller(FAILING).start()
    started = time.monotonic()
    queue.put("any")
    assert until(lambda: len(queue.notes()) == 2)
    assert time.monotonic() - started >= 1
    assert queue.left() == 1


def test_only_what_the_answer_calls_failed_comes_again(queue: Queue) -> None:
    queue.open(visibility=1)
    poller = queue.poller(PARTIAL)
    queue.put("good", "bad", "fine")
    poller.start()
    assert until(lambda: "bad2" in queue.notes())
    assert {"good1", "bad1", "fine1"} <= set(queue.notes())
    assert not {"good2", "fine2"} & set(queue.notes())
    assert queue.left() == 1


def test_without_reports_the_answer_does_not_matter(queue: Queue) -> None:
    queue.open()
    queue.poller(PARTIAL, reports=False).start()
    queue.put("bad")
    assert until(lambda: queue.notes() == ["bad1"])
    assert until(lambda: queue.left() == 0)


def test_what_came_too_often_goes_to_the_dead_letters(queue: Queue) -> None:
    dead = queue.open(visibility=1, receives=2)
    queue.poller(FAILING).start()
    queue.put("any")
    assert until(lambda: queue.left(dead) == 1)
    assert queue.notes() == ["came", "came"]
    assert queue.left() == 0


def test_no_more_batches_are_under_way_than_allowed(queue: Queue, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    queue.open(visibility=30)
    queue.poller(SLOW, concurrency=2, GATE=str(gate)).start()
    queue.put("one")
    assert until(lambda: queue.notes() == ["in"])
    queue.put("two")
    assert until(lambda: queue.notes() == ["in", "in"])
    queue.put("three")
    assert not until(lambda: len(queue.notes()) > 2, seconds=1.5), "a third batch started"
    gate.unlink()
    assert until(lambda: queue.left() == 0)
    assert sorted(queue.notes()) == ["in"] * 3 + ["out"] * 3


def test_by_hand_one_batch_is_brought_and_settled(queue: Queue) -> None:
    queue.open(visibility=30)
    poller = queue.poller(PARTIAL)
    queue.put("good", "bad")
    result = poller.once(patience=5)
    assert len(result.value["batchItemFailures"]) == 1
    assert queue.left() == 1
    assert poller.once(patience=5).value == {"batchItemFailures": []}, "the failed one is unseen"
    assert queue.notes() == ["good1", "bad1"]


def test_a_closed_poller_takes_nothing_more(queue: Queue) -> None:
    queue.open()
    poller = queue.poller(PARTIAL)
    poller.close()
    poller.start()
    queue.put("any")
    assert not until(lambda: queue.notes() != [], seconds=0.5)
    assert queue.left() == 1


def test_a_throttled_batch_waits_in_the_queue(
    queue: Queue, make_function: Callable[..., Function]
) -> None:
    queue.open(visibility=1)
    busy = make_function("", name="busy", concurrency=0, reserved=True)
    source = QueueSource(queue_arn(queue.name), "busy", 10, concurrency=1, reports=True)
    poller = Poller(source, busy, queue.sqs, url=queue.url)
    queue.put("any")
    with pytest.raises(ThrottledError):
        poller.once(patience=0)
    assert queue.left() == 1
    queue.poller(PARTIAL).start()
    assert until(lambda: queue.notes() == ["any2"])


class Unforeseen:
    """A function that fails its first call in a way that nobody planned for."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.calls = 0

    def invoke(self, event: Any, *, patience: float) -> Result:
        """The function's own result, from the second call on."""
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("nobody planned for this")
        return self._function.invoke(event, patience=patience)


def test_a_queue_goes_on_after_an_unforeseen_error_and_tells_of_it(
    queue: Queue, make_function: Callable[..., Function], caplog: pytest.LogCaptureFixture
) -> None:
    queue.open(visibility=1)
    notes = {"NOTES": str(queue.notes_file)}
    function: Any = Unforeseen(make_function(PARTIAL, environment=notes))
    source = QueueSource(queue_arn(queue.name), "sample", 10, concurrency=1, reports=True)
    poller = Poller(source, function, queue.sqs, url=queue.url, poll_seconds=1)
    queue.pollers.append(poller)
    poller.start()
    queue.put("any")
    assert until(lambda: queue.notes() == ["any2"]), "the queue stands still"
    assert [record.message for record in caplog.records] == ["a batch of sample was not brought"]
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize(
    "answer", [None, "", {}, {"batchItemFailures": []}, {"other": 1}, {"batchItemFailures": None}]
)
def test_an_empty_answer_means_that_all_is_done(answer: Any) -> None:
    assert failed_messages(answer, ["a", "b"]) == set()


@pytest.mark.parametrize(
    "answer",
    [
        "text",
        {"batchItemFailures": "text"},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "unknown"}]},
        {"batchItemFailures": [{"item": "a"}]},
        {"batchItemFailures": ["a"]},
        {"batchItemFailures": [{"itemIdentifier": ["a"]}]},
        {"batchItemFailures": 7},
    ],
)
def test_an_answer_that_cannot_be_read_means_that_all_failed(answer: Any) -> None:
    assert failed_messages(answer, ["a", "b"]) == {"a", "b"}

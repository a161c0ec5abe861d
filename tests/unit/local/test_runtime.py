"""Functions under the real runtime client fail and live on as they do on Lambda."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from local.runtime import PAYLOAD_LIMIT, Result, ThrottledError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.functions import Function

PID = """
    import os

    def handler(event, context):
        return os.getpid()
"""
WAIT = """
    import pathlib, time

    def handler(event, context):
        pathlib.Path(event["started"]).touch()
        while not pathlib.Path(event["go"]).exists():
            time.sleep(0.01)
        return "done"
"""


class Call(threading.Thread):
    """An invocation that is under way."""

    def __init__(self, function: Function, folder: Path, number: int) -> None:
        super().__init__()
        self.result: Result | None = None
        self._function = function
        self._folder = folder
        self._mark = folder / f"started-{number}"
        self.start()
        deadline = time.monotonic() + 20
        while not self._mark.exists():
            assert time.monotonic() < deadline, "the function did not start"
            time.sleep(0.01)

    def run(self) -> None:
        event = {"started": str(self._mark), "go": str(self._folder / "go")}
        self.result = self._function.invoke(event)


def test_an_idle_worker_is_used_again(make_function: Callable[..., Function]) -> None:
    function = make_function(PID)
    pids = {function.invoke({}).value for _ in range(5)}
    assert len(pids) == function.cold_starts == 1
    assert pids == {function.last_pid} == set(function.pids)
    assert function.last_result == function.last_pid
    assert len(function.init_milliseconds) == 1
    assert function.init_milliseconds[0] > 0


def test_a_function_sees_its_event_its_deadline_and_its_identity(
    make_function: Callable[..., Function],
) -> None:
    source = """
        def handler(event, context):
            left = context.get_remaining_time_in_millis()
            return [event, left, context.function_name, context.invoked_function_arn]
    """
    event, left, name, arn = make_function(source).invoke({"key": "größer"}).value
    assert event == {"key": "größer"}
    assert 4_000 < left <= 5_000
    assert (name, arn.rpartition(":")[2]) == ("sample", "sample")


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (
            "import os\ndef handler(event, context):\n    os._exit(3)",
            ("error", "Runtime.ExitError"),
        ),
        (WAIT, ("timeout", "Sandbox.Timedout")),
        ("def handler(event, context):\n    raise ValueError('no')", None),
    ],
)
def test_a_worker_s_death_stands_in_its_log_and_an_exception_is_no_death(
    make_function: Callable[..., Function],
    tmp_path: Path,
    source: str,
    status: tuple[str, str] | None,
) -> None:
    function = make_function(source, timeout=0.5)
    function.invoke({"started": str(tmp_path / "started"), "go": str(tmp_path / "go")})
    lines = [
        json.loads(line)["record"]
        for line in (tmp_path / "sample.log").read_text().splitlines()
        if '"platform.report"' in line
    ]
    assert [(one["status"], one["errorType"]) for one in lines] == ([status] if status else [])
    assert all(one["requestId"] for one in lines)


def test_an_exception_is_an_error_and_the_worker_lives_on(
    make_function: Callable[..., Function],
) -> None:
    function = make_function("def handler(event, context):\n    raise ValueError('no')")
    first, second = function.invoke({}), function.invoke({})
    assert first.error == second.error == "Unhandled"
    assert (first.value["errorType"], first.value["errorMessage"]) == ("ValueError", "no")
    assert function.cold_starts == 1


def test_a_timeout_kills_the_worker_and_the_next_call_gets_a_new_one(
    make_function: Callable[..., Function], tmp_path: Path
) -> None:
    function = make_function(WAIT, timeout=0.5)
    event = {"started": str(tmp_path / "started"), "go": str(tmp_path / "go")}
    result = function.invoke(event)
    assert result.error == "Unhandled"
    assert result.value["errorType"] == "Sandbox.Timedout"
    assert "timed out after 0.50 seconds" in result.value["errorMessage"]
    assert function.pids == []
    (tmp_path / "go").touch()
    assert function.invoke(event).value == "done"
    assert function.cold_starts == 2


def test_a_worker_that_exits_is_an_error_with_its_status(
    make_function: Callable[..., Function],
) -> None:
    function = make_function("import os\ndef handler(event, context):\n    os._exit(3)")
    for _ in range(2):
        result = function.invoke({})
        assert result.value["errorType"] == "Runtime.ExitError"
        assert result.value["errorMessage"].endswith("exit status 3")
    assert function.cold_starts == 2


def test_an_import_error_is_reported_to_every_caller(
    make_function: Callable[..., Function],
) -> None:
    function = make_function("import not_there_at_all")
    for _ in range(2):
        result = function.invoke({})
        assert result.error == "Unhandled"
        assert result.value["errorType"] == "Runtime.ImportModuleError"
        assert "not_there_at_all" in result.value["errorMessage"]


def test_an_exit_during_the_import_is_an_error(make_function: Callable[..., Function]) -> None:
    result = make_function("import os\nos._exit(4)").invoke({})
    assert result.value["errorType"] == "Runtime.ExitError"
    assert result.value["errorMessage"].endswith("exit status 4")


def test_kill_ends_busy_workers_and_their_callers_hear_of_it(
    make_function: Callable[..., Function], tmp_path: Path
) -> None:
    function = make_function(WAIT)
    call = Call(function, tmp_path, 1)
    killed = function.kill()
    call.join(10)
    assert len(killed) == 1
    assert not psutil.pid_exists(killed[0])
    assert call.result is not None
    assert call.result.value["errorMessage"].endswith("signal: killed")
    assert function.kill() == []


def test_a_worker_that_dies_idle_is_replaced(make_function: Callable[..., Function]) -> None:
    function = make_function(PID)
    pid = function.invoke({}).value
    psutil.Process(pid).kill()
    results = [function.invoke({}), function.invoke({})]
    # The death may be seen just before or just after the event was handed over, as on Lambda.
    assert results[-1].value != pid
    assert results[0].error in {None, "Unhandled"}
    assert function.cold_starts == 2


def test_a_call_beyond_the_limit_is_throttled(
    make_function: Callable[..., Function], tmp_path: Path
) -> None:
    function = make_function(WAIT)
    calls = [Call(function, tmp_path, number) for number in (1, 2)]
    assert len(function.busy_pids) == 2
    with pytest.raises(ThrottledError):
        function.invoke({})
    (tmp_path / "go").touch()
    for call in calls:
        call.join(10)
    assert [call.result.value for call in calls if call.result] == ["done", "done"]
    assert function.cold_starts == 2


def test_a_patient_call_waits_for_a_worker_but_never_past_a_reserved_limit(
    make_function: Callable[..., Function], tmp_path: Path
) -> None:
    function = make_function(WAIT, concurrency=1)
    call = Call(function, tmp_path, 1)
    event = {"started": str(tmp_path / "second"), "go": str(tmp_path / "go")}
    results: list[Result] = []
    waiting = threading.Thread(
        target=lambda: results.append(function.invoke(event, patience=20)), daemon=True
    )
    waiting.start()
    (tmp_path / "go").touch()
    waiting.join(20)
    call.join(10)
    assert results[0].value == "done"
    assert function.cold_starts == 1

    (tmp_path / "go").unlink()
    reserved = make_function(WAIT, name="reserved", concurrency=1, reserved=True)
    held = Call(reserved, tmp_path, 2)
    before = time.monotonic()
    with pytest.raises(ThrottledError):
        reserved.invoke(event, patience=20)
    assert time.monotonic() - before < 20, "it waited"
    (tmp_path / "go").touch()
    held.join(10)


def test_a_result_beyond_the_payload_limit_is_an_error(
    make_function: Callable[..., Function],
) -> None:
    source = f"def handler(event, context):\n    return 'x' * {PAYLOAD_LIMIT}"
    result = make_function(source).invoke({})
    assert result.value["errorType"] == "Function.ResponseSizeTooLarge"


def test_no_login_of_the_developer_reaches_a_worker(
    make_function: Callable[..., Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "personal")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "personal")
    monkeypatch.setenv("GITHUB_TOKEN", "personal")
    source = "import os\ndef handler(event, context):\n    return dict(os.environ)"
    seen = make_function(source, environment={"STAGE": "local"}).invoke({}).value
    assert "personal" not in seen.values()
    assert os.environ["HOME"] != seen["HOME"]
    assert (seen["STAGE"], seen["AWS_SECRET_ACCESS_KEY"]) == ("local", "local")


def test_what_a_function_prints_is_in_its_log(
    make_function: Callable[..., Function], tmp_path: Path
) -> None:
    make_function("def handler(event, context):\n    print('said so')").invoke({})
    assert "said so" in (tmp_path / "sample.log").read_text()

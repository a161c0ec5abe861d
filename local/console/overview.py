"""The first page: what waits, what is wrong, how it went in the last hour, what runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict

from local.console import charts, drawing, figures, health
from local.provider import MODES
from local.schedules import period_seconds
from postlease.config import PROVIDERS
from postlease.errors import DatabaseError, UnavailableError

if TYPE_CHECKING:
    from local.functions import Function
    from local.provider import Fault, Mode
    from local.stack import Stack
    from local.web import Response
    from postlease.gate import GateReport

_LONGEST_RESULT = 300


def show(stack: Stack, reader: figures.Reader, notice: str | None) -> Response:
    """The page with what reader reads; notice says what a button did."""
    found, away = _figures(stack, reader)
    troubles = health.troubles(found, runs(stack), stack.provider.fault)
    if away:
        troubles.insert(0, f"The database gave no figures: {away}.")
    return drawing.page(
        "overview",
        notice=notice,
        is_read=away is None,
        troubles=troubles,
        figures=found,
        looked_at=found.queue.looked_at,
        throughput=charts.stacked([(one.sent, one.failed) for one in found.minutes]),
        latency=charts.lines(
            [[one.p50 for one in found.minutes], [one.p95 for one in found.minutes]], unit=" s"
        ),
        busy_minutes=_busy(found),
        gates=_gates(found.gates),
        schedules=_schedules(stack),
        functions=[_function(one) for one in stack.functions.values()],
        modes=MODES,
        fault=_fault(stack.provider.fault),
        with_schedules=stack.has_schedules,
        database=f"{_database(stack)} on {stack.server}",
        endpoint_url=stack.aws.endpoint_url,
    )


def runs(stack: Stack) -> list[health.Run]:
    """How the functions are doing, the scheduled ones first."""
    scheduled = {schedule.function: schedule for schedule in stack.template.schedules}
    off = {
        name
        for name, schedule in scheduled.items()
        if stack.has_schedules and not stack.is_scheduled(schedule.name)
    }
    return [
        health.Run(
            name,
            period_seconds(scheduled[name].expression) if name in scheduled else None,
            bool(stack.functions[name].busy_pids),
            _ago(stack.functions[name].last_ended_at),
            stack.functions[name].last_failure,
            name in off,
        )
        for name in dict.fromkeys((*scheduled, *stack.functions))
    ]


def _figures(stack: Stack, reader: figures.Reader) -> tuple[figures.Figures, str | None]:
    """The figures, or empty ones and why there are none."""
    try:
        return reader.read(stack.database_url), None
    except (DatabaseError, UnavailableError) as error:
        return figures.Figures(figures.Queue(datetime.now(UTC))), drawing.reason(error)


def _fault(fault: Fault) -> Mode:
    """What the provider does to its next call."""
    return "accept" if fault.times == 0 else fault.mode


def _database(stack: Stack) -> str:
    return str(conninfo_to_dict(stack.database_url).get("dbname"))


def _ago(at: datetime | None) -> float | None:
    return None if at is None else (datetime.now(UTC) - at).total_seconds()


def _busy(found: figures.Figures) -> list[tuple[int, figures.Minute]]:
    """The minutes in which something ended, the newest first, each with how long ago it began."""
    numbered = ((figures.MINUTES - place, one) for place, one in enumerate(found.minutes))
    return [(ago, one) for ago, one in numbered if one.sent or one.failed][::-1]


def _gates(noted: list[GateReport]) -> list[dict[str, Any]]:
    """Each gate with the evidence for its state, in words."""
    by_provider = {gate.provider: gate for gate in noted}
    return [
        {"provider": name, "gate": by_provider.get(name)}
        for name in PROVIDERS
        if name in by_provider or name == PROVIDERS[0]
    ]


def _schedules(stack: Stack) -> list[dict[str, Any]]:
    return [
        {
            "name": schedule.name,
            "function": schedule.function,
            "expression": schedule.expression,
            "is_on": stack.is_scheduled(schedule.name),
            **_last(stack.functions[schedule.function]),
        }
        for schedule in stack.template.schedules
    ]


def _function(function: Function) -> dict[str, Any]:
    return {
        "name": function.name,
        "pids": function.pids,
        "busy": function.busy_pids,
        "cold_starts": function.cold_starts,
        **_last(function),
    }


def _last(function: Function) -> dict[str, Any]:
    result = function.last_result
    if isinstance(result, dict):
        result = ", ".join(f"{name} {value}" for name, value in result.items())
    text = "" if result is None else str(result)
    return {
        "is_running": bool(function.busy_pids),
        "ended_at": function.last_ended_at,
        "failure": function.last_failure,
        "result": text[:_LONGEST_RESULT] + ("…" if len(text) > _LONGEST_RESULT else ""),
    }

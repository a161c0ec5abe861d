"""What of a value may stand in a mail: texts and numbers. Nothing else is text to a reader.

Left to Python, null would read "None", true "True", and a list would show its brackets. They may
be asked for and looped over as ever; only where one would become text is it refused: where it is
printed, joined by `~`, and where a filter makes text of it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from jinja2 import Undefined, nodes, pass_eval_context
from jinja2.filters import make_attrgetter
from jinja2.visitor import NodeTransformer

from postlease.rendering.bounding import FITS, BoundedEnvironment
from postlease.rendering.sources import NotATextError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2.nodes import EvalContext
    from jinja2.runtime import Context

_CHECK = "as_text"
_MAKES_TEXT = frozenset(
    {
        "capitalize",
        "center",
        "e",
        "escape",
        "forceescape",
        "format",
        "indent",
        "lower",
        "replace",
        "string",
        "striptags",
        "title",
        "trim",
        "truncate",
        "upper",
        "wordwrap",
    }
)
_ALL_OF_IT = "format"
"""The filter that makes text of its arguments too."""


def as_text(value: Any) -> Any:
    """The value if it may be shown. What is undefined tells of that itself when it is written."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal, Undefined)):
        raise NotATextError(value)
    return value


class Environment(BoundedEnvironment):
    """The sandbox, in which nothing but texts and numbers becomes text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=as_text, **options)
        self.filters[_CHECK] = as_text
        self.filters["join"] = _joining(self.filters["join"])
        self.filters["urlencode"] = _encoding(self.filters["urlencode"])

    def call_filter(self, name: str, value: Any, *arguments: Any, **options: Any) -> Any:
        """A filter that is named at run time, as `map("upper")` does."""
        checked = as_text(value) if name in _MAKES_TEXT else value
        return super().call_filter(name, checked, *arguments, **options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`%`, which fills in a text, or divides; the others are not about texts."""
        if operator == "%" and isinstance(left, str):
            parts = right if isinstance(right, tuple) else (right,)
            if isinstance(right, dict) and "%(" in left:
                parts = tuple(right.values())
            for part in parts:
                as_text(part)
        return super().call_binop(context, operator, left, right)

    def compile(self, source: str | nodes.Template, *arguments: Any, **options: Any) -> Any:
        """What Jinja makes of source, with the checks in it."""
        name, filename = [*arguments, None, None][:2]
        tree = self.parse(source, name, filename) if isinstance(source, str) else source
        checked = _Checks().visit(tree)
        checked.set_environment(self)
        return super().compile(checked, *arguments, **options)


class _Checks(NodeTransformer):
    """Puts the check before whatever makes text of a value."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802  Jinja's name
        self.generic_visit(node)
        node.nodes = [_checked(part) for part in node.nodes]
        return _checked(node, FITS)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802  Jinja's name
        self.generic_visit(node)
        if node.name in _MAKES_TEXT and node.node is not None:
            node.node = _checked(node.node)
        if node.name == _ALL_OF_IT:
            node.args = [_checked(part) for part in node.args]
            for pair in node.kwargs:
                pair.value = _checked(pair.value)
        return node


def _checked(part: nodes.Expr, check: str = _CHECK) -> nodes.Expr:
    return nodes.Filter(part, check, [], [], None, None, lineno=part.lineno)


def _encoding(encode: Any) -> Any:
    def encoded(value: Any) -> Any:
        # Pairs and objects are a query; each part of one is a value of its own.
        return encode(as_text(value) if value is None or isinstance(value, bool) else value)

    return encoded


def _joining(join: Any) -> Any:
    @pass_eval_context
    def joined(
        context: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None
    ) -> str:
        parts = iter(value)
        if attribute is not None:
            parts = map(make_attrgetter(context.environment, attribute), parts)
        text: str = join(context, [as_text(part) for part in parts], d)
        return text

    return joined

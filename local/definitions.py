"""What each function of a template is to the runtime: folders, environment, limits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.runtime import FunctionDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.built import Built
    from local.template import Template, TemplateFunction

_CONCURRENCY = 8
_LEAST_HTTP, _LEAST_SCHEDULED = 4, 2


@dataclass(frozen=True, slots=True)
class Definitions:
    """Defines a template's functions: from their source, or from what was built of it.

    folder is one of ours, for layers that have to be put together. surroundings are variables of
    every function, over the template's own; timeouts are seconds by function, over the template's.
    """

    template: Template
    built: Built | None
    folder: Path
    surroundings: Mapping[str, str]
    timeouts: Mapping[str, float]

    def of(self, function: TemplateFunction) -> FunctionDefinition:
        """What that function is."""
        triggers = [route.function for route in self.template.routes]
        least = _LEAST_HTTP if function.name in triggers else _LEAST_SCHEDULED
        logging = {
            "AWS_LAMBDA_LOG_FORMAT": function.log_format,
            "AWS_LAMBDA_LOG_LEVEL": function.log_level,
        }
        built = self.built
        return FunctionDefinition(
            name=function.name,
            root=built.function(function.logical_id) if built else function.folder,
            handler=function.handler,
            search_path=tuple(self._layers(function)),
            environment={
                **{name: value for name, value in logging.items() if value is not None},
                **function.environment,
                **(built.environment if built else {}),
                **self.surroundings,
            },
            timeout=self.timeouts.get(function.name, function.timeout),
            memory=function.memory,
            concurrency=max(function.reserved or _CONCURRENCY, least),
            reserved=function.reserved is not None,
            python=built.python if built else Path(sys.executable),
        )

    def _layers(self, function: TemplateFunction) -> list[Path]:
        """The folders that stand for the function's layers.

        The dependency layer is the environment that this process runs in; sql/ shows under the name
        that its layer gives it.
        """
        if self.built is not None:
            return [self.built.layer(logical_id) for logical_id in function.layers]
        folders = []
        for logical_id in function.layers:
            folder = self.template.layer_folder(logical_id).resolve()
            if folder.name == "python":
                folders.append(folder)
            elif folder.name == "sql":
                layer = self.folder / "sql-layer"
                if not layer.exists():
                    layer.mkdir()
                    (layer / "postlease_sql").symlink_to(folder, target_is_directory=True)
                folders.append(layer)
        return folders

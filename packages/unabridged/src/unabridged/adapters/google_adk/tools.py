"""The recall tools as tools of ADK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from unabridged.adapters.kit import DESCRIPTIONS, PARAMETERS, READ, SEARCH, Engine, look_up
from unabridged.archive.protocol import Scope


class RecallTool(BaseTool):
    """Searches, or reads, what left the context of the agent that calls it."""

    NAMES: ClassVar = (SEARCH, READ)

    def __init__(self, engine: Engine, name: str, scope_of: Callable[[Any], Scope]) -> None:
        super().__init__(name=name, description=DESCRIPTIONS[name])
        self._engine, self._scope_of = engine, scope_of

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=PARAMETERS[self.name]
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        """What the archive holds."""
        scope = self._scope_of(tool_context)
        return await asyncio.to_thread(self._look_up, scope, args)

    def _look_up(self, scope: Scope, args: dict[str, Any]) -> str:
        return look_up(self._engine.archive, scope, self.name, args, self._engine.format)

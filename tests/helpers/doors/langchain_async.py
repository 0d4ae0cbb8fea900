"""LangChain's door in an event loop, with a state that stays whole: only what the model is sent is compacted."""

from __future__ import annotations

import asyncio
from typing import Any

from doors.langchain import LangChainDoor, LangChainSession


class AsyncSession(LangChainSession):
    """A thread of a compiled agent, in an event loop of its own for each turn."""

    def _run(self, given: Any) -> str:
        self.pieces = []
        asyncio.run(self._arun(given))
        return self._outcome()

    async def _arun(self, given: Any) -> None:
        if not self._streaming:
            await self.agent.ainvoke(given, self._config)
            return
        async for chunk, _ in self.agent.astream(given, self._config, stream_mode="messages"):
            self._hear(chunk)


class AsyncLangChainDoor(LangChainDoor):
    """`ainvoke` and `astream`, with `state="kept"`."""

    name = "langchain-async"
    session = AsyncSession
    options = {"state": "kept"}  # noqa: RUF012 - never changed


DOOR = AsyncLangChainDoor()

"""The door of async programs over CrewAI: `Agent.kickoff_async`."""

from __future__ import annotations

import asyncio
from typing import Any

from crewai import Agent

from doors.crewai import CrewDoor, CrewSession


class AsyncSession(CrewSession):
    """Runs in an event loop each."""

    def _kickoff(self, agent: Agent, messages: list[Any]) -> Any:
        return asyncio.run(agent.kickoff_async(messages))


class AsyncDoor(CrewDoor):
    """A program that awaits."""

    name = "crewai-async"
    session = AsyncSession


DOOR = AsyncDoor()

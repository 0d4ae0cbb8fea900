"""An AG2 agent: pip install unabridged 'ag2[openai]'."""

import asyncio

from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from ag2.config.openai import OpenAIClient
from openai import AsyncOpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


client = unabridged.wrap(AsyncOpenAI(), thread="reports")


class Config(OpenAIConfig):
    """A configuration whose model clients send by way of `client`."""

    def create(self) -> OpenAIClient:
        """Return a model client that sends by way of `client`."""
        created = super().create()
        created._client = client  # its constructor takes none
        return created


agent = Agent("reader", config=Config(model="gpt-5-mini"), tools=[tool(read_report)])
reply = asyncio.run(agent.ask("Read the reports 1 to 60, one after the other. Which pump leaks?"))
print(reply.body)

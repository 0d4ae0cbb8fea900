"""An agent of Microsoft Agent Framework: pip install unabridged agent-framework-openai."""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


client = unabridged.wrap(AsyncOpenAI(), thread="reports")
model = OpenAIChatCompletionClient(model="gpt-5-mini", async_client=client)
model.function_invocation_configuration["max_iterations"] = 100
agent = Agent(model, tools=[read_report])
session = agent.create_session()


async def ask(task: str) -> str:
    """Return the agent's answer."""
    return (await agent.run(task, session=session)).text


print(asyncio.run(ask("Read the reports 1 to 60, one after the other. Which pump leaks?")))

"""An AutoGen agent: pip install unabridged autogen-agentchat 'autogen-ext[openai]'."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import BaseOpenAIChatCompletionClient
from openai import AsyncOpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


client = unabridged.wrap(AsyncOpenAI(), thread="reports")
model = BaseOpenAIChatCompletionClient(client, create_args={"model": "gpt-5-mini"})
agent = AssistantAgent("reader", model, tools=[read_report], max_tool_iterations=100)
result = asyncio.run(agent.run(task="Read the reports 1 to 60, one after the other. Which pump leaks?"))
print(result.messages[-1])

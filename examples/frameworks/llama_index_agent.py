"""A LlamaIndex agent: pip install unabridged llama-index-core llama-index-llms-openai."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai import OpenAI
from openai import AsyncOpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


client = unabridged.wrap(AsyncOpenAI(), thread="reports")
agent = FunctionAgent(tools=[read_report], llm=OpenAI(model="gpt-5-mini", async_openai_client=client))
memory = Memory.from_defaults(token_limit=10_000_000)  # at its limit it drops the oldest


async def ask(task: str) -> str:
    """Return the agent's answer."""
    return str(await agent.run(task, memory=memory, max_iterations=100))


print(asyncio.run(ask("Read the reports 1 to 60, one after the other. Which pump leaks?")))

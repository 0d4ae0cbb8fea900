"""A Haystack agent: pip install unabridged haystack-ai."""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


generator = OpenAIChatGenerator(model="gpt-5-mini")
generator.warm_up()  # makes the client
generator.client = unabridged.wrap(generator.client, thread="reports")
agent = Agent(chat_generator=generator, tools=[create_tool_from_function(read_report)])
task = "Read the reports 1 to 60, one after the other. Which pump leaks?"
answer = agent.run(messages=[ChatMessage.from_user(task)])
print(answer["last_message"].text)

"""An Agno agent: pip install unabridged agno openai."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from openai import OpenAI

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


client = unabridged.wrap(OpenAI(), thread="reports")
agent = Agent(model=OpenAIChat(id="gpt-5-mini", client=client), tools=[read_report])
answer = agent.run("Read the reports 1 to 60, one after the other. Which pump leaks?")
print(answer.content)

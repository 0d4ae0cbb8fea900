"""A smolagents agent: pip install unabridged 'smolagents[openai]'."""

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import unabridged


@tool
def read_report(number: int) -> str:
    """Read one of the reports 1 to 60.

    Args:
        number: Which of them.
    """
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


model = OpenAIServerModel("gpt-5-mini")
model.client = unabridged.wrap(model.client, thread="reports")
agent = ToolCallingAgent([read_report], model, max_steps=100)
print(agent.run("Read the reports 1 to 60, one after the other. Which pump leaks?"))

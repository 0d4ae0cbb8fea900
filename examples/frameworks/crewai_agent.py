"""A CrewAI crew: pip install unabridged crewai."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

import unabridged


def read_report(number: int) -> str:
    """Read one of the reports 1 to 60."""
    return f"Report {number}: pump {number} {'leaks' if number == 37 else 'is steady'}. " * 25


llm = LLM(model="openai/gpt-5-mini")
llm._client = unabridged.wrap(llm._client, thread="reports")  # its constructor takes no client
reader = Agent(
    role="Reader",
    goal="Read reports.",
    backstory="You read carefully.",
    llm=llm,
    tools=[tool(read_report)],
    max_iter=100,
    respect_context_window=False,
)
task = Task(
    description="Read the reports 1 to 60, one after the other. Which pump leaks?",
    expected_output="The number of the pump.",
    agent=reader,
)
print(Crew(agents=[reader], tasks=[task]).kickoff())

"""Text protocols as agents speak them: how the model writes an action, and how the host hands over its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple


class Protocol(NamedTuple):
    """`act` writes a command as an action of the model's, `wrap` an output as the host's `user` turn."""

    act: Callable[[str], str]
    wrap: Callable[[str], str]


def _json(**values: object) -> str:
    return json.dumps(values)


PROTOCOLS: dict[str, Protocol] = {
    "AutoGen": Protocol(
        lambda c: f"Let's check.\n\n```python\nimport os; os.system({c!r})\n```",
        lambda o: f"exitcode: 0 (execution succeeded)\nCode output: \n{o}\n",
    ),
    "AutoGen, shell": Protocol(
        lambda c: f"We look at it first.\n\n```sh\n{c}\n```\nAfter that I will know more.",
        lambda o: f"exitcode: 0 (execution succeeded)\nCode output: \n{o}\n",
    ),
    "AutoGPT": Protocol(
        lambda c: _json(thoughts={"text": "look"}, command={"name": "execute_shell", "args": {"command_line": c}}),
        lambda o: f"Command execute_shell returned: {o}",
    ),
    "AutoGPT, pretty": Protocol(
        lambda c: json.dumps({"thoughts": {"text": "look"}, "command": {"name": "sh", "args": {"line": c}}}, indent=4),
        lambda o: f"Command sh returned: {o}",
    ),
    "smolagents": Protocol(
        lambda c: f"Thought: look\nCode:\n```py\nprint(run({c!r}))\n```<end_code>",
        lambda o: f"Observation:\nExecution logs:\n{o}\nLast output from code snippet:\nNone",
    ),
    "smolagents, tagged": Protocol(
        lambda c: f"Thought: look\n<code>\nprint(run({c!r}))\n</code>",
        lambda o: f"Execution logs:\n{o}\nLast output from code snippet:\nNone",
    ),
    "Terminus": Protocol(
        lambda c: _json(analysis="look", commands=[{"keystrokes": c + "\n"}]),
        lambda o: f"New Terminal Output:\n{o}\nroot@host:/app#",
    ),
    "Terminus, in XML": Protocol(
        lambda c: (
            f"<response>\n<analysis>look</analysis>\n<commands>\n<keystrokes>{c}</keystrokes>\n</commands>\n</response>"
        ),
        lambda o: f"New Terminal Output:\n{o}",
    ),
    "WebArena": Protocol(
        lambda c: f"Let's think step-by-step. In summary, the next action I will perform is ```type [12] [{c}]```",
        lambda o: f"OBSERVATION:\n{o}\nURL: http://shop\nOBJECTIVE: find it\nPREVIOUS ACTION: None",
    ),
    "BrowserGym": Protocol(lambda c: f"fill('12', {c!r})", lambda o: f"# Current page\n{o}\n\n# Next action:"),
    "aider": Protocol(
        lambda c: f"I need to see that first.\n\n```bash\n{c}\n```",
        lambda o: f"I ran this command:\n\nmake\n\nAnd got this output:\n\n{o}",
    ),
    "bare JSON": Protocol(lambda c: _json(command=c), lambda o: o),
    "bare JSON with words": Protocol(lambda c: f"I look.\n{_json(tool='bash', args=c)}", lambda o: f"Result: {o}"),
    "bare Python": Protocol(lambda c: f"import os\nprint(os.popen({c!r}).read())", lambda o: o),
    "bare call": Protocol(lambda c: f"run({c!r})", lambda o: o),
    "calls in a list": Protocol(lambda c: f"[bash(command={c!r})]", lambda o: f'[{{"output": "done"}}]\n{o}'),
    "Search-R1": Protocol(
        lambda c: f"<think>look</think>\n<search>{c}</search>", lambda o: f"<information>\n{o}\n</information>"
    ),
    "search, bare": Protocol(lambda c: f"I look it up. <search>{c}</search>", lambda o: o),
    "SWE-agent": Protocol(
        lambda c: f"DISCUSSION\nI look.\n```\n{c}\n```",
        lambda o: f"{o}\n(Open file: n/a)\n(Current directory: /r)\nbash-$",
    ),
    "mini-swe-agent": Protocol(
        lambda c: f"THOUGHT: I look.\n\n```bash\n{c}\n```",
        lambda o: f"<returncode>0</returncode>\n<output>\n{o}\n</output>",
    ),
    "ReAct": Protocol(lambda c: f"Thought: look\nAction: bash\nAction Input: {c}", lambda o: f"Observation: {o}"),
    "ReAct, bare": Protocol(lambda c: f"Thought: look\nAction: execute[{c}]", lambda o: o),
    "LangChain's structured chat": Protocol(
        lambda c: f"Thought: look\nAction:\n```json\n{_json(action='bash', action_input=c)}\n```",
        lambda o: f"Observation: {o}",
    ),
    "JSON in a fence, bare": Protocol(lambda c: f"```json\n{_json(action='bash', action_input=c)}\n```", lambda o: o),
    "CodeAct": Protocol(
        lambda c: f"I look.\n<execute_bash>\n{c}\n</execute_bash>",
        lambda o: f"OBSERVATION:\n{o}\n[Command finished with exit code 0]",
    ),
    "CodeAct, bare": Protocol(lambda c: f"<execute>\nprint(run({c!r}))\n</execute>", lambda o: o),
    "Cline": Protocol(
        lambda c: f"I look.\n\n<execute_command>\n<command>{c}</command>\n</execute_command>",
        lambda o: f"[execute_command for 'grep'] Result:\nCommand executed.\nOutput:\n{o}",
    ),
    "Cline, other words": Protocol(
        lambda c: f"<read_file>\n<path>{c}</path>\n</read_file>", lambda o: f"[read_file for 'src/x.py'] Result:\n{o}"
    ),
    "SWE-agent, functions": Protocol(
        lambda c: f"I look.\n<function=bash>\n<parameter=command>{c}</parameter>\n</function>",
        lambda o: f"OBSERVATION:\n{o}",
    ),
    "Claude's functions": Protocol(
        lambda c: (
            f'<function_calls>\n<invoke name="bash">\n<parameter name="c">{c}</parameter>\n</invoke>\n</function_calls>'
        ),
        lambda o: f"<function_results>\n{o}\n</function_results>",
    ),
    "Hermes": Protocol(
        lambda c: f"<tool_call>\n{_json(name='bash', arguments={'command': c})}\n</tool_call>",
        lambda o: f"<tool_response>\n{o}\n</tool_response>",
    ),
    "XML agent": Protocol(
        lambda c: f"<tool>bash</tool><tool_input>{c}</tool_input>", lambda o: f"<observation>{o}</observation>"
    ),
    "AgentBench": Protocol(
        lambda c: f"Think: I look.\n\nAct: bash\n\n```bash\n{c}\n```", lambda o: f"The output of the OS:\n\n{o}"
    ),
    "ALFWorld": Protocol(lambda c: f"THOUGHT: I look around.\nACTION: examine {c}", lambda o: o),
    "Gemini's tool code": Protocol(
        lambda c: f"```tool_code\nprint(bash({c!r}))\n```", lambda o: f"```tool_outputs\n{o}\n```"
    ),
    "Open Interpreter": Protocol(
        lambda c: f"I will look at the files.\n\n```shell\n{c}\n```",
        lambda o: f"{o}\n\nWhat does this output mean / what's next (if anything, or are we done)?",
    ),
    "Voyager": Protocol(
        lambda c: f"Plan: look.\n\n```javascript\nawait run({c!r});\n```",
        lambda o: f"Chat log: {o}\nPosition: x=1, y=2",
    ),
    "DSPy": Protocol(
        lambda c: (
            f"[[ ## next_tool_name ## ]]\nbash\n\n[[ ## next_tool_args ## ]]\n{_json(c=c)}\n\n[[ ## completed ## ]]"
        ),
        lambda o: f"[[ ## observation ## ]]\n{o}",
    ),
    "a terminal": Protocol(lambda c: f"I look.\n\n<shell id='1'>{c}</shell>", lambda o: o),
    "python tag": Protocol(lambda c: f"<|python_tag|>run({c!r})", lambda o: o),
    "a command line": Protocol(lambda c: f"Command: {c}", lambda o: f"Output of the command:\n{o}"),
    "YAML": Protocol(lambda c: f"thought: look\naction: bash\nargs: {c}", lambda o: f"status: ok\nstdout: |\n{o}"),
    "a shell fence, bare": Protocol(lambda c: f"Let me look at it.\n\n```bash\n{c}\n```", lambda o: o),
    "a Python fence, bare": Protocol(lambda c: f"I'll look at it.\n\n```python\nprint(run({c!r}))\n```", lambda o: o),
    "a Python fence, ending alike": Protocol(
        lambda c: f"Next, the file.\n\n```python\nprint(run({c!r}))\n```",
        lambda o: f"{o}\n--- end of output (12 ms) ---",
    ),
    "a fence alone": Protocol(lambda c: f"```bash\n{c}\n```", lambda o: f"[stdout]\n{o}"),
}

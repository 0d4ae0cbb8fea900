"""The parts that the adapter of any agent framework needs. No framework is imported here.

An adapter is a format and a seam: the format reads the framework's messages (`unabridged.formats`, or one of its own),
the seam is where the framework lets others see a request before it is sent. Between them is `Engine`.

| for | there is |
| --- | --- |
| compactors on one archive, a request fitted, observed and repeated once | `Engine`, `Agent`, `Request` |
| the same for a streamed response, open or not | `Stream`, `stream`, `astream`, `watch`, `awatch` |
| one text for sync and async callers | `Steps`, `run`, `arun`, `in_both_forms`, `method`, `blocking`, `hosts` |
| the conversation's name | `thread`, `current_thread`, `sub_thread` |
| the host's own state in a summary turn | `Engine(host_state=...)`, `Request.values`, `current_values` |
| messages that the framework itself reads, pinned | `with_pins` |
| a model of the framework's as the writer of summaries | `NamedModel` |
| the agent's own model as that | `AGENT_MODEL`, `AgentsModel`, `OwnModel`, `Request.own`, `with_own_model` |
| texts pinned to a thread | `PinMethods` |
| recall tools | `SEARCH_TOOL`, `READ_TOOL`, `TOOL_DESCRIPTIONS`, `TOOL_PARAMETERS`, `look_up`, `only_what_left` |
| the fields of a request to a provider | `Endpoint` and its instances, `Body`, `longest` |
| their values, as a model is shown them | `listed`, `schema_of`, `has_recall` |
| events as data, for the framework's own tracing | `event_data`, `tell_both`, `collected_events`, `why_not` |
| what the summariser used, for the framework's own count | `summaries_used` |
| a list of the host's that follows a compaction | `change_between`, `follow_change`, `identity` |
| originals that the host keeps, as compactions left them | `as_recorded` |
| what an adapter remembers, the newest of it | `Newest` |
"""

from unabridged.adapters.kit.applied_records import as_recorded
from unabridged.adapters.kit.bounded_mapping import Newest
from unabridged.adapters.kit.endpoints import (
    CHAT_ENDPOINT,
    MESSAGES_ENDPOINT,
    RESPONSES_ENDPOINT,
    Body,
    Endpoint,
    has_recall,
    listed,
    longest,
    schema_of,
)
from unabridged.adapters.kit.engine import (
    Agent,
    Engine,
    Exchanged,
    PinMethods,
    Request,
    about,
    current_values,
    with_pins,
)
from unabridged.adapters.kit.events import (
    collect_event,
    collected_events,
    event_data,
    summaries_used,
    tell_both,
    why_not,
)
from unabridged.adapters.kit.own_model import AGENT_MODEL, AgentsModel, NamedModel, OwnModel, with_own_model
from unabridged.adapters.kit.pending_changes import PendingChange, change_between, follow_change, identity
from unabridged.adapters.kit.recall import (
    READ_TOOL,
    SEARCH_TOOL,
    TOOL_DESCRIPTIONS,
    TOOL_PARAMETERS,
    look_up,
    only_what_left,
)
from unabridged.adapters.kit.streams import ResponseEventStream, Stream, astream, awatch, stream, watch
from unabridged.adapters.kit.sync_async import (
    Step,
    Steps,
    arun,
    blocking,
    hosts,
    in_both_forms,
    in_event_loop,
    method,
    run,
)
from unabridged.adapters.kit.threads import current_thread, sub_thread, thread

__all__ = [
    "AGENT_MODEL",
    "CHAT_ENDPOINT",
    "MESSAGES_ENDPOINT",
    "READ_TOOL",
    "RESPONSES_ENDPOINT",
    "SEARCH_TOOL",
    "TOOL_DESCRIPTIONS",
    "TOOL_PARAMETERS",
    "Agent",
    "AgentsModel",
    "Body",
    "Endpoint",
    "Engine",
    "Exchanged",
    "NamedModel",
    "Newest",
    "OwnModel",
    "PendingChange",
    "PinMethods",
    "Request",
    "ResponseEventStream",
    "Step",
    "Steps",
    "Stream",
    "about",
    "arun",
    "as_recorded",
    "astream",
    "awatch",
    "blocking",
    "change_between",
    "collect_event",
    "collected_events",
    "current_thread",
    "current_values",
    "event_data",
    "follow_change",
    "has_recall",
    "hosts",
    "identity",
    "in_both_forms",
    "in_event_loop",
    "listed",
    "longest",
    "look_up",
    "method",
    "only_what_left",
    "run",
    "schema_of",
    "stream",
    "sub_thread",
    "summaries_used",
    "tell_both",
    "thread",
    "watch",
    "why_not",
    "with_own_model",
    "with_pins",
]

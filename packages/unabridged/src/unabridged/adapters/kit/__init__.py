"""What the adapter of any agent framework needs, and no framework is imported for.

An adapter is a format and a seam: the format reads the framework's messages (`unabridged.formats`, or one of its own),
the seam is where the framework lets others see a request before it is sent. Between them stands `Engine`.

| for | there is |
| --- | --- |
| compactors on one archive, a request fitted, observed and repeated once | `Engine`, `Agent`, `Request` |
| the same for a streamed response, not yet open or open already | `Stream`, `stream`, `astream`, `watch`, `awatch` |
| one text for sync and async callers | `Steps`, `run`, `arun`, `in_both_forms`, `method`, `blocking`, `hosts` |
| the conversation's name | `thread`, `current_thread`, `sub_thread` |
| the host's own state in a summary turn | `Request.values`, `current_values` |
| a model of the framework's as the writer of summaries | `NamedModel` |
| the agent's own model as that | `AGENT_MODEL`, `OwnModel`, `Request.own`, `with_own_model` |
| texts pinned to a thread | `PinMethods` |
| recall tools | `SEARCH`, `READ`, `DESCRIPTIONS`, `PARAMETERS`, `look_up`, `only_what_left` |
| where in a request to a provider what stands | `Endpoint`, `CHAT`, `RESPONSES`, `MESSAGES`, `Body`, `longest` |
| what stands there, as a model is shown it | `listed`, `schema_of`, `has_recall` |
| events as data, for the framework's own tracing | `event_data`, `tell_both`, `collected_events`, `why_not` |
| what the summariser used, for the framework's own count | `summaries_used` |
| a list of the host's that follows a compaction | `change_between`, `follow_change`, `identity` |
| originals that the host keeps, as compactions left them | `as_recorded` |
| what is known of conversations, the newest of them | `Newest` |
"""

from unabridged.adapters.kit.endpoints import (
    CHAT,
    MESSAGES,
    RESPONSES,
    Body,
    Endpoint,
    has_recall,
    listed,
    longest,
    schema_of,
)
from unabridged.adapters.kit.engine import Agent, Engine, Exchanged, Request, about, current_values
from unabridged.adapters.kit.events import (
    collect_event,
    collected_events,
    event_data,
    summaries_used,
    tell_both,
    why_not,
)
from unabridged.adapters.kit.following import PendingChange, change_between, follow_change, identity
from unabridged.adapters.kit.newest import Newest
from unabridged.adapters.kit.own_model import AGENT_MODEL, NamedModel, OwnModel, with_own_model
from unabridged.adapters.kit.pins import PinMethods
from unabridged.adapters.kit.recall import DESCRIPTIONS, PARAMETERS, READ, SEARCH, look_up, only_what_left
from unabridged.adapters.kit.recorded import as_recorded
from unabridged.adapters.kit.steps import (
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
from unabridged.adapters.kit.streams import Stream, astream, awatch, stream, watch
from unabridged.adapters.kit.threads import current_thread, sub_thread, thread

__all__ = [
    "AGENT_MODEL",
    "CHAT",
    "DESCRIPTIONS",
    "MESSAGES",
    "PARAMETERS",
    "READ",
    "RESPONSES",
    "SEARCH",
    "Agent",
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
]

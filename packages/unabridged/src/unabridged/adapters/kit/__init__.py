"""The parts that the adapter of any agent framework needs. No framework is imported here.

An adapter is a format and a seam: the format reads the framework's messages (`unabridged.formats`, or one of its own),
the seam is where the framework lets others see a request before it is sent. Between them is `Engine`.

| for | there is |
| --- | --- |
| compactors on one archive, a request fitted, observed and repeated once | `Engine`, `Agent`, `Request` |
| the same for a streamed response, open or not | `Stream`, `stream`, `astream`, `stream_fitted`, `astream_fitted` |
| sync and async | `Steps`, `run`, `arun`, `make_sync_and_async`, `call_method`, `call_in_thread`, `call_host` |
| the conversation's name | `thread`, `current_thread`, `name_sub_thread` |
| the host's own state in a summary turn | `Engine(host_state=...)`, `Request.values`, `current_host_values` |
| messages that the framework itself reads, pinned | `with_pins` |
| a model of the framework's as the writer of summaries | `NamedModel` |
| the agent's own model as that | `AGENT_MODEL`, `AgentsModel`, `OwnModel`, `Request.own`, `set_own_model` |
| the provider's own compaction: its request and its answer | the module `native` |
| texts pinned to a thread | `PinMethods` |
| recall tools | `TOOL_DESCRIPTIONS`, `TOOL_PARAMETERS`, `look_up`, `limit_to_removed_messages` |
| the fields of a request to a provider | `Endpoint` and its instances, `Body`, `find_largest_length` |
| their values, as a model is shown them | `to_list`, `to_schema`, `has_recall` |
| events as data, for tracing | `event_data`, `combine_listeners`, `collect_events`, `explain_no_compaction` |
| what the summariser used, for the framework's own count | `sum_summariser_usage` |
| a list of the host's that follows a compaction | `change_between`, `apply_change`, `name_by_identity` |
| originals that the host keeps, as compactions left them | `apply_recorded_compactions` |
| what an adapter remembers, the newest of it | `BoundedMapping` |
"""

from unabridged.adapters.kit.applied_records import apply_recorded_compactions
from unabridged.adapters.kit.bounded_mapping import BoundedMapping
from unabridged.adapters.kit.endpoints import (
    CHAT_ENDPOINT,
    MESSAGES_ENDPOINT,
    RESPONSES_ENDPOINT,
    Body,
    Endpoint,
    find_largest_length,
    has_recall,
    to_list,
    to_schema,
)
from unabridged.adapters.kit.engine import (
    Agent,
    Engine,
    ExchangeResult,
    PinMethods,
    Request,
    current_host_values,
    set_host_values,
    with_pins,
)
from unabridged.adapters.kit.events import (
    add_collected_event,
    collect_events,
    event_data,
    explain_no_compaction,
    sum_summariser_usage,
)
from unabridged.adapters.kit.own_model import AGENT_MODEL, AgentsModel, NamedModel, OwnModel, set_own_model
from unabridged.adapters.kit.pending_changes import PendingChange, apply_change, change_between, name_by_identity
from unabridged.adapters.kit.recall import limit_to_removed_messages, look_up
from unabridged.adapters.kit.streams import ResponseEventStream, Stream, astream, astream_fitted, stream, stream_fitted
from unabridged.adapters.kit.sync_async import (
    Step,
    Steps,
    arun,
    call_host,
    call_in_thread,
    call_method,
    is_in_event_loop,
    make_sync_and_async,
    run,
)
from unabridged.adapters.kit.threads import current_thread, name_sub_thread, thread
from unabridged.events import combine_listeners
from unabridged.recall.tools import READ_TOOL, SEARCH_TOOL, TOOL_DESCRIPTIONS, TOOL_PARAMETERS

__all__ = ["AGENT_MODEL", "CHAT_ENDPOINT", "MESSAGES_ENDPOINT", "READ_TOOL", "RESPONSES_ENDPOINT", "SEARCH_TOOL"]
__all__ += ["TOOL_DESCRIPTIONS", "TOOL_PARAMETERS"]
__all__ += ["Agent", "AgentsModel", "Body", "BoundedMapping", "Endpoint", "Engine", "ExchangeResult", "NamedModel"]
__all__ += ["OwnModel", "PendingChange", "PinMethods", "Request", "ResponseEventStream", "Step", "Steps", "Stream"]
__all__ += ["add_collected_event", "apply_recorded_compactions", "arun", "astream", "astream_fitted", "call_host"]
__all__ += ["call_in_thread", "call_method", "change_between", "collect_events", "combine_listeners"]
__all__ += ["current_host_values", "current_thread", "event_data", "explain_no_compaction", "find_largest_length"]
__all__ += ["apply_change", "has_recall", "is_in_event_loop", "limit_to_removed_messages", "look_up"]
__all__ += ["make_sync_and_async", "name_by_identity", "name_sub_thread", "run", "set_host_values", "set_own_model"]
__all__ += ["stream", "stream_fitted", "sum_summariser_usage", "thread", "to_list", "to_schema", "with_pins"]

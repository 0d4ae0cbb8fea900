"""The clients of the OpenAI, Anthropic and Google Gen AI SDKs, in loops of your own.

    client = unabridged.wrap(OpenAI(), thread="t1")      # the same type; every request fits, whatever the list holds
    client.unabridged.replay()                           # and nothing is lost

Nothing of an SDK is imported here: a client brings its own.
"""

from unabridged.adapters.sdk.clients import history_of, wrap
from unabridged.adapters.sdk.history import History
from unabridged.adapters.sdk.native_model import native
from unabridged.adapters.sdk.serialisation import dump, load

__all__ = ["History", "dump", "history_of", "load", "native", "wrap"]

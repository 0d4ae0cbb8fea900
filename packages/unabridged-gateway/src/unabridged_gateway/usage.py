"""What each tenant used since this process began: `GET /usage`, for the tenant itself or, for all, an operator.

Numbers only. Tokens are as providers reported them, dollars by the prices in the table of models.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from unabridged.adapters.kit import BoundedMapping
from unabridged.events import COMPACTION_KINDS, Compacted, Event, Failed
from unabridged.tokens.calibrate import Usage
from unabridged.tokens.models import find_model_info
from unabridged_gateway.request_log import RequestOutcome

_MAX_TENANTS: Final = 10_000
_COUNTED: Final = (
    "requests", "refused", "requests_reported", "input_tokens", "cached_tokens", "output_tokens", "dollars",
    "compactions", "tokens_freed", "summary_calls", "summary_input_tokens", "summary_output_tokens", "summary_dollars",
)  # fmt: skip


class TenantUsage:
    """Counts requests and compactions by tenant."""

    def __init__(self) -> None:
        self._since = time.time()
        self._counts: BoundedMapping[str, defaultdict[str, float]] = BoundedMapping(_MAX_TENANTS)
        self._lock = threading.Lock()

    def count_request(self, tenant: str, model: str, status: int, outcome: RequestOutcome) -> None:
        """Count a request that was answered."""
        counts: dict[str, float] = {"requests": 1, "refused": int(status >= 400)}
        if (usage := outcome.usage) is not None:
            counts |= {"requests_reported": 1, "dollars": _find_price(model, usage)}
            counts |= {"input_tokens": usage.input, "cached_tokens": usage.cache_read, "output_tokens": usage.output}
        self._add(tenant, counts)

    def on_event(self, event: Event) -> None:
        """Count a compaction, and what its summary took."""
        cost: Mapping[str, float] = {}
        if isinstance(event, Compacted) and event.receipt.kind in COMPACTION_KINDS:
            freed = max(0, event.receipt.tokens_before - event.receipt.tokens_after)
            self._add(event.namespace, {"compactions": 1, "tokens_freed": freed})
            cost = event.receipt.cost
        elif isinstance(event, Failed) and not event.goes_on:  # else the receipt has it
            cost = event.cost
        if cost:
            names = {"calls": "calls", "input": "input_tokens", "output": "output_tokens", "dollars": "dollars"}
            self._add(event.namespace, {f"summary_{name}": cost.get(field, 0) for field, name in names.items()})

    def describe(self, tenant: str | None) -> dict[str, Any]:
        """Return the numbers of a tenant; with None those of each that is known."""
        with self._lock:
            if tenant is not None:
                return {"since": round(self._since), **self._read(tenant)}
            return {"since": round(self._since), "tenants": {name: self._read(name) for name in list(self._counts)}}

    def _add(self, tenant: str, counts: Mapping[str, float]) -> None:
        with self._lock:
            known = self._counts.get(tenant)
            if known is None:
                known = self._counts[tenant] = defaultdict(float)
            for name, number in counts.items():
                known[name] += number

    def _read(self, tenant: str) -> dict[str, float]:
        counts: Mapping[str, float] = self._counts.get(tenant, {})
        return {name: round(counts.get(name, 0), 6) for name in _COUNTED}


def _find_price(model: str, usage: Usage) -> float:
    """Return what a request cost in dollars; 0 for a model whose price is not known."""
    info = find_model_info(model)
    if info is None:
        return 0.0
    cached = usage.cache_read * info.cache_read_share + usage.cache_write * info.cache_write_share
    plain = usage.input - usage.cache_read - usage.cache_write
    return ((plain + cached) * info.input + usage.output * info.output) / 1e6

"""Read what the provider says a request took, and learn from it about our estimates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from unabridged.formats.fields import get


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request as its provider reported them."""

    input: int
    """All input, whether cached or not."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0


class _ReportPaths(NamedTuple):
    """Where one kind of report keeps its numbers; `a.b` is inside, `a+b` is the sum."""

    input: str
    cache_read: str
    cache_write: str
    output: str
    beside: bool = False
    """Whether what the cache served or took is beside `input`, not in it."""


_CHAT, _RESPONSES, _LANGCHAIN = "prompt_tokens_details", "input_tokens_details", "input_token_details"
# Several share the name of their input: the one whose cache fields are there is meant.
_REPORT_PATHS = (
    _ReportPaths("prompt_tokens", f"{_CHAT}.cached_tokens", f"{_CHAT}.cache_write_tokens", "completion_tokens"),
    _ReportPaths("input_tokens", f"{_RESPONSES}.cached_tokens", f"{_RESPONSES}.cache_write_tokens", "output_tokens"),
    _ReportPaths("input_tokens", f"{_LANGCHAIN}.cache_read", f"{_LANGCHAIN}.cache_creation", "output_tokens"),
    _ReportPaths("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"),  # Pydantic AI
    _ReportPaths(
        "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens", beside=True
    ),
    # Bedrock
    _ReportPaths("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens", beside=True),
    _ReportPaths("prompt_token_count", "cached_content_token_count", "", "candidates_token_count+thoughts_token_count"),
    _ReportPaths("promptTokenCount", "cachedContentTokenCount", "", "candidatesTokenCount+thoughtsTokenCount"),
)
_MAX_TOKENS = 1e12
"""No request has more tokens; neither infinity nor NaN passes."""
_USAGE_FIELDS = ("usage", "usage_metadata", "usageMetadata")
"""Where a whole response keeps its report."""


def parse_usage(report: Any) -> Usage | None:
    """Return the usage in an SDK's usage object or a whole response, or either as a dict; None without a usable one.

    Counts all input: Anthropic and Bedrock report what came from the cache, or went there, beside the rest.
    """
    if report is None or isinstance(report, Usage):
        return report
    for field in _USAGE_FIELDS:
        inner = get(report, field)
        if inner is not None and not callable(inner):
            return parse_usage(inner)
    shapes = [shape for shape in _REPORT_PATHS if _read_number(report, shape.input) is not None]
    if not shapes:
        return None
    shape = next((shape for shape in shapes if _has_field(report, shape.cache_read)), shapes[-1])
    read, write = _read_number(report, shape.cache_read) or 0, _read_number(report, shape.cache_write) or 0
    total = (_read_number(report, shape.input) or 0) + (read + write if shape.beside else 0)
    return Usage(total, read, write, _read_number(report, shape.output) or 0) if total > 0 else None


def _has_field(report: Any, path: str) -> bool:
    """Return whether the report has such a field at all, even if it says None (Anthropic's cache fields may)."""
    outer, _, _ = path.partition(".")
    return outer in report if isinstance(report, Mapping) else hasattr(report, outer)


def _read_number(report: Any, path: str) -> int | None:
    """Return the number at `path`; the sum where `+` joins several; None where there is none."""
    values = [reduce(get, part.split("."), report) for part in path.split("+") if part]
    numbers = [int(value) for value in values if type(value) in (int, float) and 0 <= value < _MAX_TOKENS]
    return sum(numbers) if numbers else None


class Calibration:
    """How far reports say our estimates are off, as a factor; one odd report never moves it far.

    `factor` is the median of the last nine ratios of reported to estimated tokens. Ratios that no estimator explains
    (a report ten times off) count only when most reports are like that. Too low is worse than too high: one report
    is enough to raise the factor from 1, and two in a row raise it at any time; lowering takes a majority. A refusal
    that tells its count raises it at once.
    """

    _RATIOS_KEPT = 9
    _PLAUSIBLE_RATIOS = (0.25, 1.75)
    _RATIOS_TO_SETTLE = 3
    _MAX_REFUSED_RATIO = 10.0
    """A refusal that tells more than this times the estimate counted something else, or wrongly."""

    def __init__(self) -> None:
        self.factor = 1.0
        self._ratios: deque[float] = deque(maxlen=self._RATIOS_KEPT)

    @classmethod
    def from_json(cls, stored: Any, key: str) -> Calibration:
        """Return the calibration that `to_json` stored; a new one where that is of other counts, or malformed."""
        calibration = cls()
        if isinstance(stored, Mapping) and stored.get("key") == key and isinstance(stored.get("ratios"), list):
            ratios = [ratio for ratio in stored["ratios"] if type(ratio) in (int, float) and 0 < ratio < _MAX_TOKENS]
            calibration._ratios.extend(map(float, ratios))
            calibration.factor = calibration._compute_factor(list(calibration._ratios))
        return calibration

    def to_json(self, key: str) -> dict[str, Any]:
        """Return all it learned, as JSON can hold it. `key` (`Meter.key`) says which counts were compared."""
        return {"key": key, "ratios": list(self._ratios)}

    def find_lowest_ratio(self, unreported: float) -> float | None:
        """Return the lowest ratio of reported to estimated tokens: `unreported` before any, None after enough."""
        return min(self._ratios, default=unreported) if len(self._ratios) < self._RATIOS_TO_SETTLE else None

    def observe(self, estimated: int, usage: Usage) -> None:
        """Learn from one request: what we thought it takes, and what its provider says it took."""
        if estimated <= 0 or usage.input <= 0:
            return
        self._ratios.append(usage.input / estimated)
        self.factor = self._compute_factor(list(self._ratios))

    def refused(self, estimated: int, requested: int) -> None:
        """Learn from a request its provider refused as too long, and said how long: the reports before it were wrong.

        It never lowers: what is refused may be counted only as far as the limit ("at least 12,001 tokens").
        """
        if estimated <= 0 or (ratio := min(requested / estimated, self._MAX_REFUSED_RATIO)) <= self.factor:
            return
        # As many as it takes to be believed when odd.
        self._ratios = deque([ratio] * self._RATIOS_TO_SETTLE, maxlen=self._RATIOS_KEPT)
        self.factor = ratio

    def _compute_factor(self, ratios: list[float]) -> float:
        low, high = self._PLAUSIBLE_RATIOS
        trusted = [ratio for ratio in ratios if low <= ratio <= high]
        if len(ratios) >= self._RATIOS_TO_SETTLE and 2 * len(trusted) < len(ratios):
            trusted = ratios
        if not trusted:
            return 1.0
        ordered = sorted(trusted if len(trusted) >= self._RATIOS_TO_SETTLE else [*trusted, 1.0])
        upper_median = ordered[len(ordered) // 2]
        return max(upper_median, min(trusted[-2:])) if len(trusted) > 1 else upper_median

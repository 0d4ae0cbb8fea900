"""Write packages/unabridged/src/unabridged/tokens/models.json anew from the installed `genai-prices`.

    pip install --upgrade genai-prices && python lab/scripts/generate_models.py

One line a model: provider, window, and dollars per million tokens of input, cache read, cache write and output.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genai_prices.data import providers

from unabridged.tokens.models import _iterate_spellings

TARGET = Path(__file__).parents[2] / "packages" / "unabridged" / "src" / "unabridged" / "tokens" / "models.json"

# Who speaks first about a name: its maker, then the resellers.
MAKERS = ["anthropic", "openai", "google", "x-ai", "deepseek", "mistral", "moonshotai", "zai", "zhipuai", "minimax"]
RESELLERS = ["meta", "cohere", "perplexity", "aws", "groq", "cerebras", "openrouter"]

NO_CHAT = re.compile(
    r"embed|tts|image|ocr|transcri|whisper|realtime|live|voice|sonic|rerank|moderation|guard|audio|banana|robotics|"
    r"^dall|davinci|babbage|search-api|decisions|titan"
)
OPENAI_OUTPUT = 128_000
OPENAI_CHAT = 128_000
"""The window of the `-chat` variants, whatever that of the model they are named after."""
OPENAI_REASONER = re.compile(r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?")


def main() -> None:
    """Collect the models, report the changes, and write the file."""
    table = collect()
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(table.items()))
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{TARGET}: {len(table)} models, {TARGET.stat().st_size:,} bytes")


def collect() -> dict[str, list[Any]]:
    """Return every chat model with a known window; a maker's price may come with a reseller's window."""
    by_id = {provider.id: provider for provider in providers}
    prices: dict[str, tuple[str, list[float]]] = {}
    windows: dict[str, int] = {}
    for provider_id in MAKERS + RESELLERS:
        for model in by_id[provider_id].models:
            model_id, _, variant = model.id.partition(":")
            name = table_name(model_id)
            alias = model_id.startswith("~") and "claude" not in name  # `~openai/gpt-latest` would catch every gpt-…
            if alias or NO_CHAT.search(name) or (variant and not variant.isdigit()):
                continue
            prices.setdefault(name, (provider_id, prices_of(model)))
            if model.context_window:
                windows.setdefault(name, input_window(name, model.context_window))
    for name in [name for name in windows if OPENAI_REASONER.fullmatch(name)]:
        windows[f"{name}-chat"], prices[f"{name}-chat"] = OPENAI_CHAT, prices[name]
    return {name: [prices[name][0], window, *prices[name][1]] for name, window in windows.items()}


def table_name(model_id: str) -> str:
    """Return the name without provider, region, version and date."""
    names = list(_iterate_spellings(model_id))
    return next((name for name in names if not re.search(r"-v\d+$|-latest$|-20\d{6}$", name)), names[-1])


def input_window(name: str, window: int) -> int:
    """Return the tokens left for input; OpenAI's windows since GPT-5 include 128,000 that only output may use."""
    if name == "gpt-chat":
        return OPENAI_CHAT
    if OPENAI_REASONER.match(name) and window > 2 * OPENAI_OUTPUT:
        return window - OPENAI_OUTPUT
    return window


def prices_of(model: Any) -> list[float]:
    """Return today's input, cache read, cache write and output price, at the lowest tier."""
    price = model.get_prices(datetime.now(UTC))
    fields = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")
    return [tidy(getattr(price, field)) for field in fields]


def tidy(price: Any) -> float:
    """Return a price as a short number, or 0 when there is none."""
    value = float(getattr(price, "base", price) or 0)
    return int(value) if value.is_integer() else value


if __name__ == "__main__":
    main()

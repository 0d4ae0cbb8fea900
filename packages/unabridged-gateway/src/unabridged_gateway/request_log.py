"""Record one finished request: names and numbers, nothing that anybody said, and no key."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from unabridged_gateway.json_body import READ_ERRORS
from unabridged_gateway.logs import FACTS_ATTRIBUTE, LogFacts

if TYPE_CHECKING:
    from unabridged.compactor import Compaction
    from unabridged.tokens.calibrate import Usage

log = logging.getLogger("unabridged.gateway")

MODEL_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}")
"""Names of models that may be shown; anything else is no model's."""


class RequestOutcome(NamedTuple):
    """What became of the conversation in one request."""

    way: Literal["passed", "unparsed", "parsed", "rewritten"] = "passed"
    """How the body went on: piece by piece, as it came by its length alone, as it came after it was read, or anew."""
    body: bytes = b""
    """The decoded body: only its length is recorded, and the model that it names."""
    model: str = ""
    """"" where nobody had to read it."""
    note: str = ""
    """Why it went on as it came; what follows a colon is for the client alone."""
    fitted: Compaction | None = None
    again: bool = False
    """Whether it was refused as too long, and sent once more."""
    usage: Usage | None = None
    """What the provider reported, where that was read."""

    def find_model_name(self, in_path: str | None) -> str:
        """Return the name of the model, looked up in a body that nobody had to read; "" for one that can't be shown."""
        name = self.model or in_path or ""
        if not name:
            try:
                name = _MODEL_DECODER.decode(self.body).model
            except READ_ERRORS:
                return ""
        return name if MODEL_NAME_PATTERN.fullmatch(name) else ""


class _ModelField(msgspec.Struct):
    model: str = ""


_MODEL_DECODER: Final = msgspec.json.Decoder(_ModelField)


def log_request(outcome: RequestOutcome, **labels: Any) -> None:
    """Log the labels that are set, and the numbers of the outcome."""
    facts = LogFacts({name: value for name, value in labels.items() if value != ""})
    fitted = outcome.fitted
    if outcome.body:
        facts |= {"bytes": len(outcome.body), "way": outcome.way}
    if fitted is not None and fitted.tokens_before:
        facts |= {"tokens_before": fitted.tokens_before, "tokens_after": fitted.tokens_after}
    if fitted is not None and fitted.receipt is not None:
        facts["record"] = fitted.receipt.id
    if outcome.again:
        facts["sent_again"] = True
    if outcome.note:
        facts["note"] = outcome.note.partition(":")[0]
    log.info(facts, extra={FACTS_ATTRIBUTE: facts})

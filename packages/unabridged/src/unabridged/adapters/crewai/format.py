"""CrewAI's messages: those of Chat Completions, with files beside the content that its LLMs make parts of."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from unabridged.archive import codec
from unabridged.formats import OpenAIChat
from unabridged.formats.base import Edit, Message, Slot
from unabridged.formats.parts import read_media
from unabridged.messages import View

codec.allow("crewai_files")


class CrewMessages(OpenAIChat):
    """Messages of an agent's executor, whichever provider its LLM asks."""

    name = "crewai"

    def read(self, message: Message) -> View:
        """Return the view of the message, with its files as media."""
        if not (files := _list_files(message)):
            return super().read(message)
        content = message["content"] or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return super().read({**message, "content": [*parts, *map(_to_part, files.values())]})

    def edit(self, message: Message, edit: Edit) -> Message:
        """Return a copy with every piece run through `edit`; the very same object when nothing changed."""
        if not (files := _list_files(message)):
            return super().edit(message, edit)
        plain = {key: value for key, value in message.items() if key != "files"}
        edited, kept, texts = super().edit(plain, edit), {}, []
        for name, file in files.items():
            media = read_media(_to_part(file))
            source = "" if media is None else media.source
            if (new := edit(Slot("media"), source)) == source:
                kept[name] = file
            else:
                texts.append({"type": "text", "text": new})
        if edited is plain and not texts:
            return message
        content = edited["content"] or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return {**edited, "content": [*parts, *texts], **({"files": kept} if kept else {})}


FORMAT = CrewMessages()


def _list_files(message: Message) -> Mapping[str, Any]:
    """Return the files that stand beside the content, by their names."""
    return (message.get("files") if isinstance(message, Mapping) else None) or {}


def _to_part(file: Any) -> dict[str, Any]:
    """Return the file as a part of OpenAI's; one that is only named by its address is not loaded."""
    if not (url := getattr(file.source, "url", None)):
        url = f"data:{file.content_type};base64,{base64.b64encode(file.read()).decode()}"
    if file.content_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.filename or "", "file_data": url}}

"""A search over what still stands in the context, too: messages that the archive may not have yet."""

from __future__ import annotations

from collections.abc import Sequence

from unabridged.archive import search, store_rules
from unabridged.archive.protocol import Archive, Hit, Part, Scope


def with_live(
    archive: Archive, scope: Scope, query: str, hits: Sequence[Hit], live: Sequence[Part], *, limit: int
) -> list[Hit]:
    """Return the best of the thread's hits and of the messages of its context, which are marked `live`, ranked as one.

    A message of the context that the archive does not have is found without a reference: there is nothing to read.
    """
    found, turns = {hit.hash for hit in hits}, {hit.turn for hit in hits}
    standing = {part.hash for part in live}
    parts = [Part(hit.hash, b"", hit.turn, hit.role, hit.origin, hit.text) for hit in hits]
    parts += [part for part in live if part.hash not in found and part.turn not in turns]  # no shorter form of a hit
    ranked = search.search_all(query, limit, [search.Found(scope, at, part) for at, part in enumerate(parts)])
    unknown = [one.part.hash for one, _ in ranked if one.part.hash not in found]
    held = found.union(archive.bodies(scope, unknown)) if unknown else found
    made: list[Hit] = []
    for one, score in ranked:
        hit = store_rules.make_hit(scope, one.part, score)
        is_live = hit.hash in standing
        made.append(hit._replace(live=is_live, ref=hit.ref if hit.hash in held else ""))
    return made

"""Encryption at rest, with a key only the caller has: a wrapper around any archive. Needs the extra `encryption`.

The store below sees sealed bytes and names made with the key. In the clear are the names of namespaces and threads,
record ids and kinds, turns, times, sizes, and which messages of a namespace are equal: without that a message could not
be stored once. Sealing is AES-SIV, each piece bound to where it stands, so that none can be put in another's place.

Search reads and opens the thread, or all of them; `plaintext_index=True` lets the store below index the words.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from unabridged.archive import codec, protocol, search, store_rules
from unabridged.archive.codec import pack
from unabridged.archive.protocol import Archive, Hit, HitsByThread, Part, Record, Scope, StoredRecord
from unabridged.errors import ArchiveError, NotInstalled, SettingsError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV
except ImportError as error:
    raise NotInstalled("encryption", "unabridged[encryption]", error) from error

KEY_BYTES: Final = 32


def new_key() -> bytes:
    """Return a fresh key. Keep it where the archive is not: without it nothing can be read again."""
    return secrets.token_bytes(KEY_BYTES)


class EncryptedArchive:
    """Another archive, whose store can't be read without the key."""

    is_encrypted = True
    """So no transcript in plain text is kept beside it."""

    def __init__(self, archive: Archive, key: bytes, *, plaintext_index: bool = False) -> None:
        if len(key) < KEY_BYTES:
            raise SettingsError(f"the key has {len(key)} bytes: {KEY_BYTES} random ones are needed, as from new_key().")
        self._archive = archive
        # What stands in the clear is the business of the store below alone.
        self.url, self.close = archive.url, archive.close
        self.locate, self.locate_each, self.retire = archive.locate, archive.locate_each, archive.retire
        self.namespaces, self.threads, self.newest_time = archive.namespaces, archive.threads, archive.newest_time
        self.last_used, self.holdings, self.shared = archive.last_used, archive.holdings, archive.shared
        self.forget, self.forget_namespace = archive.forget, archive.forget_namespace
        self._plaintext_index = plaintext_index
        self._cipher = AESSIV(hmac.digest(key, b"unabridged: seal", "sha512"))
        self._naming_key = hmac.digest(key, b"unabridged: names", "sha256")

    def store(self, record: Record, parts: Sequence[Part]) -> Record:
        """Write record and parts, all or nothing; return the record that now holds the key."""
        store_rules.check_names(*record.scope)
        store_rules.check_parts(parts)
        sealed = [self._seal_part(record.scope, part) for part in parts]
        return self._open_record(self._archive.store(self._seal_record(record), sealed))

    def record(self, scope: Scope, record_id: str) -> Record | None:
        """Return the record with this id, retired or not, or None."""
        found = self._archive.record(scope, record_id)
        return None if found is None else self._open_record(found)

    records = Archive.records

    def newest(self, scope: Scope) -> Iterator[Record]:
        """Return the live records of the thread, newest first, opened as they are asked for."""
        return map(self._open_record, self._archive.newest(scope))

    def keyed(self, scope: Scope, keys: Sequence[str]) -> Sequence[Record]:
        """Return the live records that hold one of these keys, in no order; no other record is opened."""
        found = self._archive.keyed(scope, [self._make_keyed_name(scope, key) for key in keys])
        return [self._open_record(record) for record in found]

    def bodies(self, scope: Scope, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Return the stored messages with these hashes, those that the thread holds; others are absent."""
        names = {self._make_keyed_name(scope, digest): digest for digest in hashes}
        found = self._archive.bodies(scope, list(names))
        return {names[name]: self._open_body(scope, name, names[name], body) for name, body in found.items()}

    def parts(self, scope: Scope, first: int = 0, last: int | None = None) -> Sequence[Part]:
        """Return the archived messages with first <= turn < last, in the order of turns: no put-in ones (turn -1)."""
        return [self._open_part(scope, part) for part in self._archive.parts(scope, first, last)]

    def search(self, scope: Scope, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages that match best: literal words, no query syntax."""
        if self._plaintext_index:
            return self._open_hits(scope.namespace, self._archive.search(scope, query, limit))
        return search.search_parts(query, limit, [(scope, self.parts(scope))])

    def search_namespace(self, namespace: str, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the archived messages of all threads of the namespace that match best, each with its thread."""
        if self._plaintext_index:
            return self._open_hits(namespace, self._archive.search_namespace(namespace, query, limit))
        scopes = (Scope(namespace, thread) for thread in self.threads(namespace))
        return search.search_parts(query, limit, ((scope, self.parts(scope)) for scope in scopes))

    def threads_with(self, namespace: str, query: str) -> protocol.MatchingThreads:
        """Return every thread of the namespace in which `search` finds something, those that were used last first."""
        if self._plaintext_index:
            return self._archive.threads_with(namespace, query)
        return Archive.threads_with(self, namespace, query)

    def search_each(self, namespace: str, threads: Sequence[str], query: str, limit: int = 10) -> HitsByThread:
        """Return the best matches of each of these threads."""
        if not self._plaintext_index:
            scopes = [Scope(namespace, thread) for thread in dict.fromkeys(threads)]
            return search.search_each_threads_parts(query, limit, ((scope, self.parts(scope)) for scope in scopes))
        found = self._archive.search_each(namespace, threads, query, limit)
        return {name: one._replace(hits=self._open_hits(namespace, one.hits)) for name, one in found.items()}

    def remember(self, namespace: str, key: str, data: Mapping[str, object]) -> None:
        """Keep some plain JSON under this key, sealed, in the place of what was there."""
        store_rules.check_names(namespace)
        name = self._note_name(namespace, key)
        sealed = self._seal(store_rules.encode_note(namespace, key, data), "note", namespace, name)
        self._archive.remember(namespace, name, {"sealed": base64.b64encode(sealed).decode("ascii")})

    def remembered(self, namespace: str, key: str) -> Mapping[str, object] | None:
        """Return what was kept under this key last; None when nothing was."""
        name = self._note_name(namespace, key)
        found = self._archive.remembered(namespace, name)
        note = None if found is None else store_rules.decode_note(self._open_note(namespace, name, found))
        return None if note is None else note.data

    def _note_name(self, namespace: str, key: str) -> str:
        """Return the name that a note is stored under; what goes with its thread is found by the thread's name."""
        is_of_thread = key.startswith(store_rules.thread_note_key(""))
        return key if is_of_thread else self._make_keyed_name(Scope(namespace, ""), key)

    def notes(self, namespace: str | None = None) -> Sequence[protocol.Note]:
        """Return everything that is remembered, opened."""
        sealed = self._archive.notes(namespace)
        found = (store_rules.decode_note(self._open_note(space, name, data)) for space, name, data in sealed)
        return [note for note in found if note is not None]

    def everything(self, scope: Scope) -> Iterator[StoredRecord]:
        """Yield all that the thread holds, in the order it was stored, opened as it is asked for."""
        for record, live, parts in self._archive.everything(scope):
            yield StoredRecord(self._open_record(record), live, [self._open_part(scope, part) for part in parts])

    def take(self, scope: Scope, held: int, stored: Iterable[StoredRecord]) -> bool:
        """Append what `everything` yielded to the thread, sealed; return False when it does not hold `held` records."""
        return self._archive.take(scope, held, (self._seal_stored(scope, one) for one in stored))

    def lease(self, scope: Scope, key: str, seconds: float) -> bool:
        """Return whether the caller may do the work named `key` alone, until `release` or `seconds` have passed."""
        store_rules.check_names(*scope)
        return self._archive.lease(scope, self._make_keyed_name(scope, key), seconds)

    def release(self, scope: Scope, key: str) -> None:
        """Give back the oldest lease on `key` that this archive object was given; harmless when it has run out."""
        self._archive.release(scope, self._make_keyed_name(scope, key))

    def verify(self, scope: Scope | None = None) -> Sequence[str]:
        """Return what is wrong with the stored thread, or with everything: a sentence each; empty when all is well.

        Of a thread, everything is opened too; of all, the sealed bytes are checked as they are.
        """
        found = list(self._archive.verify(scope))
        if scope is not None and not found:
            try:
                self.records(scope)
                self.parts(scope)
            except ArchiveError as error:
                found.append(f"{store_rules.describe_scope(scope)}: {error}")
        return found

    def _seal_stored(self, scope: Scope, stored: StoredRecord) -> StoredRecord:
        store_rules.check_parts(stored.parts)
        if "sealed" in stored.record.data:
            raise ArchiveError(f"{store_rules.describe_scope(scope)} is sealed already. Open it with the key it has.")
        parts = [self._seal_part(scope, part) for part in stored.parts]
        return StoredRecord(self._seal_record(stored.record), stored.live, parts)

    def _open_note(self, namespace: str, name: str, data: Mapping[str, object]) -> bytes:
        return self._unseal(base64.b64decode(str(data.get("sealed", ""))), "note", namespace, name)

    def _make_keyed_name(self, scope: Scope, digest: str) -> str:
        named = store_rules.join_names(scope.namespace, digest)
        return store_rules.KEYED_HASH_PREFIX + hmac.digest(self._naming_key, named, "sha256").hex()

    def _seal(self, data: bytes, *place: str) -> bytes:
        return self._cipher.encrypt(data, [store_rules.join_names(*place)])

    def _unseal(self, data: bytes, *place: str) -> bytes:
        try:
            return self._cipher.decrypt(data, [store_rules.join_names(*place)])
        except (InvalidTag, ValueError) as error:
            raise ArchiveError(
                "a stored message can't be opened: this is not the key it was sealed with, or it was tampered with."
            ) from error

    def _seal_part(self, scope: Scope, part: Part) -> Part:
        name = self._make_keyed_name(scope, part.hash)
        sealed = self._seal(pack.pack(part.body), "body", scope.namespace, name)
        shown = codec.encode([part.hash, part.role, part.origin, part.text])
        view = base64.b64encode(self._seal(shown, "view", *scope, name, str(part.turn))).decode("ascii")
        body = hashlib.sha256(sealed).digest() + sealed  # so that the store below can tell damage without the key
        return Part(name, body, part.turn, role=view, origin="", text=part.text if self._plaintext_index else "")

    def _open_part(self, scope: Scope, part: Part) -> Part:
        digest, role, origin, text = self._open_view(scope, part.hash, part.turn, part.role)
        return Part(digest, self._open_body(scope, part.hash, digest, part.body), part.turn, role, origin, text)

    def _open_view(self, scope: Scope, name: str, turn: int, sealed: str) -> tuple[str, str, str, str]:
        view = self._unseal(base64.b64decode(sealed), "view", *scope, name, str(turn))
        digest, role, origin, text = codec.decode(view)
        return digest, role, origin, text

    def _open_body(self, scope: Scope, name: str, digest: str, sealed: bytes) -> bytes:
        return store_rules.check_body(pack.unpack(self._unseal(sealed[32:], "body", scope.namespace, name)), digest)

    def _open_hits(self, namespace: str, hits: Sequence[Hit]) -> list[Hit]:
        found: list[Hit] = []
        for hit in hits:
            scope = Scope(namespace, hit.thread)
            digest, role, origin, _ = self._open_view(scope, hit.hash, hit.turn, hit.role)
            found.append(store_rules.make_hit(scope, Part(digest, b"", hit.turn, role, origin, hit.text), hit.score))
        return found

    def _seal_record(self, record: Record) -> Record:
        inside = pack.pack(codec.encode(store_rules.record_fields(record)))
        sealed = base64.b64encode(self._seal(inside, "record", *record.scope, record.id)).decode("ascii")
        named = store_rules.rename_messages(record, lambda digest: self._make_keyed_name(record.scope, digest))
        key, model = self._make_keyed_name(record.scope, record.key), None if record.model is None else "sealed"
        return replace(named, key=key, model=model, data={"sealed": sealed})  # whether it has a model decides who wins

    def _open_record(self, record: Record) -> Record:
        inside = self._unseal(base64.b64decode(record.data.get("sealed", "")), "record", *record.scope, record.id)
        return store_rules.record_from_fields(record.scope, codec.decode(pack.unpack(inside)))

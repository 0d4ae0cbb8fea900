"""What was compacted before: the difference of two lists, how it is found again, taken back and derived anew.

Here, whose conversations these are where nobody says: one name for programs and the command line alike.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from unabridged.archive.protocol import DEFAULT_NAMESPACE, Archive, Scope

DEFAULT = DEFAULT_NAMESPACE


def older_namespaces(namespace: str) -> tuple[str, ...]:
    """The namespaces that earlier versions used in the place of this one: where what they stored is found."""
    return (_application(), "cli") if namespace == DEFAULT else ()


def find_scope(archive: Archive, scope: Scope) -> Scope:
    """The thread as the archive has it: in its namespace, or in one that an earlier version used in its place."""
    if not scope.thread or next(archive.newest(scope), None) is not None:
        return scope
    older = [Scope(space, scope.thread) for space in older_namespaces(scope.namespace)]
    return next((found for found in older if next(archive.newest(found), None) is not None), scope)


def _application() -> str:
    """What version 0.1 called a program's conversations: the program's name and where it lies."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] else "python").resolve()
    return f"{path.stem}-{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"

"""Many sessions at once: compacted, checked, mended, measured or evaluated, on this machine or on a cluster.

    from unabridged_corpus import Compact, run
    report = run(Compact(window=32_000), "sessions/", "shorter/", jobs=4)

In reading order: `inputs` (which files, and the shards they make), `reading` and `parquet` (the sessions in them),
`works` (what is done with one), `shards` (one shard from its input to its part), `running` (all of them), `pool` (in
processes) and `cluster` (on Ray), `manifest` (the report in the end), `spending` (what a model may take, over all
workers), `weigh` (a session in numbers).
"""

from unabridged_corpus.manifest import Failure, Report
from unabridged_corpus.running import run
from unabridged_corpus.works import Check, Compact, Evaluate, Measure, Repair

__all__ = ["Check", "Compact", "Evaluate", "Failure", "Measure", "Repair", "Report", "run"]

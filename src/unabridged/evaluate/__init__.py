"""Whether an agent after a compaction still has what it needs: `score` is the definition."""

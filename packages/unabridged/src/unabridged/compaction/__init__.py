"""One compaction, from the conversation as it is to the shorter one: `pipeline` has the steps."""

"""Wire formats: one file each. A format reads a message into a `View`, and makes or edits messages in its own shape."""

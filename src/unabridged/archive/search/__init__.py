"""The index by which archived messages are found."""

"""What is remembered between two calls, and work in the background."""

"""Keep a long-running agent inside its model's context window, and lose nothing on the way."""

"""Two networks that learn from votes and features together.  Needs PyTorch, the extra `neural`."""

"""Access control: clients, API keys, host names and rate limits."""

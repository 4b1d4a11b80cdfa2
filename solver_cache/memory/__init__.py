"""In-memory store and jobs: for tests, and where nothing is to outlive the process."""

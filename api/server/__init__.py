"""Server: listening, workers, the HTTP protocol with limits, shutdown."""

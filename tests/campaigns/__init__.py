"""Long runs behind what the documentation claims, each also run in short by a test."""

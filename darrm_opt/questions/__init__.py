"""Questions: one file for each, read by every door (`question.Question`); `registry` lists them."""

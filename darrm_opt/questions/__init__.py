"""Questions: one file for each, read by every interface (`question.Question`); `registry` lists them."""

"""HTTP errors: exceptions, one table of problem types, and the handlers that render them."""

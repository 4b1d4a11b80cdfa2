"""Design service: answers from the store, or from jobs that design them."""

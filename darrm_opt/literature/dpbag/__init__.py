"""DPBag (aggregation of bagged teachers): the paper's experiment, and its claims that do not hold."""

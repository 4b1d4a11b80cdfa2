"""ASGI middleware, from the outermost: request context, admission, response cache."""

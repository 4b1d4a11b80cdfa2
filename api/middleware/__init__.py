"""ASGI middleware, from the outermost: request context, admission, bodies of responses."""

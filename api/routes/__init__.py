"""Routes by subject: each module has one router, and ``ROUTERS`` lists them in order."""

from __future__ import annotations

from fastapi import APIRouter

from api.routes import designs, documents, gamma, jobs, operations, questions

ROUTERS: tuple[APIRouter, ...] = tuple(part.router for part in (gamma, questions, designs, jobs, operations, documents))
"""Every router of the application, in the order of its documentation."""

"""The routes, one file for each matter; each file makes one router, and ``ROUTERS`` lists them in order."""

from __future__ import annotations

from fastapi import APIRouter

from api.routes import accounts, batch, comparison, curves, estimates, gamma, jobs, operating, page, plans, proofs

ROUTERS: tuple[APIRouter, ...] = tuple(
    part.router
    for part in (batch, gamma, estimates, proofs, curves, accounts, comparison, plans, jobs, operating, page)
)
"""Every router of the application, in the order of its documentation."""

"""The routes, one file for each matter; each file makes one router, and ``ROUTERS`` lists them in order."""

from __future__ import annotations

from fastapi import APIRouter

from api.routes import curves, gamma, operating

ROUTERS: tuple[APIRouter, ...] = (gamma.router, curves.router, operating.router)
"""Every router of the application, in the order of its documentation."""

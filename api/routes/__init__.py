"""The routes, one file for each matter; each file makes one router, and ``ROUTERS`` lists them in order."""

from __future__ import annotations

from fastapi import APIRouter

from api.routes import curves, gamma, jobs, operating, page

ROUTERS: tuple[APIRouter, ...] = (gamma.router, curves.router, jobs.router, operating.router, page.router)
"""Every router of the application, in the order of its documentation."""

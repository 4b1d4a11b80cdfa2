"""Clients of stored answers: whose they are, and who may see them."""

from __future__ import annotations

from collections.abc import Collection

from solver_cache.database.statements import Statements

BESIDE_DESIGNS = ("darrm_design_tags", "darrm_design_clients", "darrm_design_reads")
"""Tables whose rows go when the answer goes."""

IS_VISIBLE = """
    (EXISTS (SELECT 1 FROM darrm_design_clients owners
     WHERE owners.key = darrm_solutions.key AND owners.client = :client)
     OR NOT EXISTS (SELECT 1 FROM darrm_design_clients owners WHERE owners.key = darrm_solutions.key))
"""
"""Condition that an answer may be seen by a client: it is its own, or nobody's and so everyone's."""


def grant(statements: Statements, key: str, clients: Collection[str], *, everyones: bool = False) -> None:
    """Make an answer that of ``clients`` too; one that has no clients, only where ``everyones``."""
    owners = "SELECT key FROM darrm_design_clients WHERE key = :key LIMIT 1"
    if clients and (everyones or statements.rows(owners, key=key)):
        insertion = "INSERT INTO darrm_design_clients (key, client) VALUES (:key, :client) ON CONFLICT DO NOTHING"
        statements.change(insertion, [{"key": key, "client": client} for client in sorted(clients)])

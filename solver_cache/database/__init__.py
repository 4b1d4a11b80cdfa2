"""Database store and jobs: SQLite or PostgreSQL.

connection  an open database: created, migrated, errors translated; transactions
statements  plain SQL by SQLite's own driver or SQLAlchemy's, and where the two differ
schema      the migrations
store       rows, and claims of their keys, by statements
engine      SQLAlchemy engines and Core, imported on first use; tables, as Core knows them
jobs        the queue of jobs; webhooks, who is told of their end; designs, lists of answers and their tags: by Core
"""

"""Database store and jobs: SQLite by its own driver, or PostgreSQL by SQLAlchemy.

connection  an open database: created, migrated, errors translated; transactions
engine      SQLAlchemy's engine for PostgreSQL
statements  plain SQL for both, and where they differ
schema      the migrations
store       rows, and claims of their keys
jobs        the queue of jobs; webhooks, who is told of their end; designs, lists of answers and their tags
"""

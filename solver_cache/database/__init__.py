"""Database store and jobs: SQLite by its own driver, or PostgreSQL by SQLAlchemy.

connection  an open database: created, migrated, errors translated; transactions
engine      PostgreSQL by SQLAlchemy, which is imported for it alone
statements  plain SQL for both, and where they differ
dependents  tags, clients and reads of an answer: who may see it, and its removal
schema      the migrations
store       rows, and claims of their keys
jobs        the queue of jobs; webhooks, who is told of their end; designs, lists of answers and their tags
"""

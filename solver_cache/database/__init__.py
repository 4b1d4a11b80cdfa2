"""Database store and jobs: SQLite or PostgreSQL, through SQLAlchemy Core.

connection  an open database: created, migrated, errors translated; where SQLite and PostgreSQL differ
schema      tables and migrations
store       rows, and claims of their keys
jobs        jobs, one by one and in batches
"""

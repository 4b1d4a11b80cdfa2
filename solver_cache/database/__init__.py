"""Database store and jobs: SQLite or PostgreSQL, through SQLAlchemy Core.

connection  an open database: created, migrated, errors translated; where SQLite and PostgreSQL differ
schema      tables and migrations
store       rows, and claims of their keys
jobs        the queue of jobs; webhooks, who is told of their end; designs, lists of answers and their tags
"""

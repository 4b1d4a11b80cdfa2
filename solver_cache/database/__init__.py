"""Database store and jobs: SQLite or PostgreSQL, through SQLAlchemy Core.

connection  an open database: created, migrated, errors translated
dialect     what SQLite and PostgreSQL say in different words
schema      tables and migrations
store       rows
jobs        jobs, one by one and in batches
"""

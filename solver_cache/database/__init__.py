"""Database store and jobs: SQLite through its own driver, or PostgreSQL through SQLAlchemy.

connection  an open database: creation, migration, transactions, translation of errors
engine      PostgreSQL through SQLAlchemy, imported only for it
statements  SQL for both, and their differences
dependents  tags, clients and reads of an answer: visibility and removal
schema      migrations
store       rows, and claims of their keys
jobs        the queue of jobs
webhooks    reports of the end of jobs
designs     the list of answers, with tags
"""

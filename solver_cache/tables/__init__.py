"""Tables as files: answers with their certificates, to be shipped beside the jobs that use them.

    entry                          the columns of a row, and the check that they agree with its record
    jsonl, csv, parquet, sqlite    one file a format: write, read
    formats                        which format a file has; writing, reading, and import into a store

A table holds each row's record to the letter, with its SHA-256, and beside it columns to search by, which say the same
once more: reading compares the two. Nothing in it depends on when or where it was written, so the same answers make the
same file, byte for byte.
"""

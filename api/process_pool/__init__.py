"""Process pool: tasks in processes of their own, bounded in time and memory, and stoppable."""

"""Process pool of the service and of precomputation: tasks in processes of their own, with limits of time and memory.

pool        the pool: hands out tasks, enforces the bounds, replaces processes
process     one process from the parent's side: its pipe, the thread that listens to it, its end
task_loop   the loop inside the process, and errors on their way back
"""

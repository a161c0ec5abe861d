"""What is measured, a module for each question.

    draining   one run of one queue: seconds, processor time, commits, WAL
    queues     the queues in turn
    limits     what PostgreSQL itself does when pgbench asks for the same writes
"""

"""How things are measured: the server, processor time, children that wait for their start, figures.

figures    medians with their range, ratios of what ran in turn
processor  seconds of processor time of a process and its children
cluster    one PostgreSQL of the run's own, and what it wrote
children   a worker that says when it is ready, starts when told, and says what it did
arguments  a command's line and the bounds of its numbers
progress   what the command tells while it runs
"""

"""The queues that are measured, each at the best settings that its documentation names.

queue     what a queue is to the bench
own       Postlease
others    the peers, each as a script in its own language
"""

"""Schemathesis against the running stack, by the API's own description.

__main__   starts the stack, lets schemathesis loose on it, counts what was answered
pool       what requests must name to go well: links, events, messages, accounts
hooks      puts those into generated requests, signs them, counts
"""

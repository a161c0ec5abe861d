"""Files that nobody here wrote, sent to the running stack.

__main__   runs all of it and tells the counts
bodies     JSONTestSuite: each body is a 400, or judged as a request
templates  mustache: each is refused when checked, or sent and read back as it was rendered
addresses  isemail: each verdict that differs from ours has its reason in docs/addresses.md
"""

"""The local stack: PostgreSQL, an emulated AWS and every function, on one machine without Docker.

    __main__                              `python -m local dev | demo | postgres`
    demo
    stack                                 composes all of the below
    console  gateway  schedules           what triggers a function
    runtime                               worker processes under the real runtime client
    aws  provider                         moto; a mail provider with faults on the wire
    template  web  signatures
    postgres  binaries                    a throw-away server
    keeper                                ends what a killed parent left behind

`bootstrap.py` stands alone: it makes the virtual environment that the rest runs in.
"""

"""The template on an emulator of AWS: deployed, used, updated, an update refused, removed.

    story       the steps, each of which looks for itself and prints what it saw: the deployments
    usage       and what people do with the stack in between
    stage       what every step does: deploy, mend the emulator's gaps, call, wait, look
    routes      makes good what the emulator leaves out of a stack, through AWS's public APIs
    project     the SAM CLI, and copies of the project with one release more
    cloud       asks the emulator
    witness     looks into the real PostgreSQL
    watch       asks the API again and again while a deployment is under way
    emulator    ministack on a loopback port
    tls         TLS in front of PostgreSQL
    children    programs that are started, and ended whatever happens

Nothing of the product or of the emulator is patched. docs/emulator.md lists what the emulator
cannot show. `python -m tests.emulator --help`.
"""

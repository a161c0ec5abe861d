"""Delivery under fire: real functions in real processes, killed, frozen and cut off by plan.

    plan        what a run will do to its workers, its database and its provider; a seed decides
    workers     the functions' processes: whose is a connection; kill, stop, continue
    wire        between the functions and PostgreSQL: reads statements, holds them or their answers
    hunter      carries the plan out, where wire and provider tell it that a point is reached
    agenda      what of the plan is due
    holdings    which worker holds which messages, and what was hit already
    ledger      what the provider saw and accepted
    desk        how the provider behaves; doubles put it behind three protocols
    queues      SQS in front of doorbell and feedback: late, again, in batches
    doubles     SES v2, a provider with idempotency keys, an SMTP relay: real socket servers
    relay       the last of them
    producer    enqueues, as fast as the plan is carried out
    scenario    one provider and one policy, from the first message to the last settled row
    evidence    counts, from the ledger and the database alone
    mutants     the product with a guard taken out, which has to turn a run red

Nothing of the product is patched. `python -m tests.chaos --help`.
"""

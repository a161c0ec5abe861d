"""Postlease: transactional email that your database can vouch for.

The map, from the top of the import order down (nothing imports upwards):

    http                                   HTTP events in, problem documents out
    accounts  delivery  migrations  retention
    outbox  suppression  attachments  rendering  providers  idempotency
    tokens  backoff  addresses  mime       pure: no network, no clock
    database  telemetry
    secret_store
    config                                 the only reader of the environment
    model  errors
"""

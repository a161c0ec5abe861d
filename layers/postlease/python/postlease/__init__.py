"""Postlease: transactional email that your database can vouch for.

The map, from the top of the import order down (nothing imports upwards):

    http                                   HTTP events in, problem documents out
    accounts  messages  delivery  feedback  migrations  retention
    outbox  suppression  attachments  rendering  providers  idempotency  limits  gate
    tokens  backoff  addresses  mime       pure: no network, no clock
    problems  strict_json  pages           pure as well, for http and the handlers
    database  telemetry
    secret_store
    config                                 the only reader of the environment
    model  errors
"""

"""What only the local stack has, under `/_local/`.

routes      which address answers what, and to whom
overview    the first page
figures     what it counts in the database
health      what is wrong, in words; pure
charts      its charts as numbers; pure
messages    the list of messages, one message's life
samples     the templates, filled in
mails       the inbox
actions     what the buttons do
interface   the API: JSON
bodies      what the API's bodies may say
drawing     pages out of the folder `html`, and what they may load
words       numbers, durations and moments; pure
"""

from local.console.routes import PREFIX, Console

__all__ = ["PREFIX", "Console"]

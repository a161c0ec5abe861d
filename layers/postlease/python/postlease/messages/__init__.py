"""Messages for services and operators.

asking        one message of a body, checked
sending       messages taken, all or none, once for each key
uploading     a place for an attachment
finding       what they may know of messages
operating     what they may change of messages
suppressing   the suppression list
gating        the gates in front of the providers
reading       ids, moments, cursors and numbers of requests
ground        what all of them stand on
"""

from postlease.messages.finding import find, recipients, search, stats
from postlease.messages.gating import find_gate, gates, rule_gate
from postlease.messages.operating import MOST_RETRIED, cancel, resolve, retry, retry_many
from postlease.messages.sending import send, send_batch
from postlease.messages.suppressing import delete as delete_suppression
from postlease.messages.suppressing import look_up as look_up_suppressions
from postlease.messages.suppressing import put as put_suppression
from postlease.messages.suppressing import search as search_suppressions
from postlease.messages.uploading import upload

__all__ = [
    "MOST_RETRIED",
    "cancel",
    "delete_suppression",
    "find",
    "find_gate",
    "gates",
    "look_up_suppressions",
    "put_suppression",
    "recipients",
    "resolve",
    "retry",
    "retry_many",
    "rule_gate",
    "search",
    "search_suppressions",
    "send",
    "send_batch",
    "stats",
    "upload",
]

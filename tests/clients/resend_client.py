"""Speaks to Pombo through Resend's package for Python, and says what came of it, for the test that runs this.

RESEND_API_URL and RESEND_API_KEY say where and as whom.
"""

import json
import os

import resend
from resend.exceptions import RateLimitError, ResendError

resend.api_key = os.environ["RESEND_API_KEY"]


def mail(to, **changes):
    return {
        "from": "Clínica <mail@clinic.example>",
        "to": to,
        "subject": "Olá",
        "html": "<p>oi</p>",
        **changes,
    }


def said(call, *arguments):
    """What a call gave, or the name of what was wrong with it."""
    try:
        return call(*arguments)
    except ResendError as error:
        return error.error_type


full = mail(
    ["python-1@x.example", "Bia <python-2@x.example>"],
    cc="python-3@x.example",
    bcc=["python-4@x.example"],
    reply_to="answers@clinic.example",
    text="oi",
    headers={"X-Entity-Ref-ID": "python"},
    tags=[{"name": "client", "value": "python"}],
    attachments=[{"filename": "a.txt", "content": list(b"hi"), "content_type": "text/plain"}],
)
key = {"idempotency_key": "python-one"}
sent = said(resend.Emails.send, full, key)
answer = {
    "sent": sent["id"],
    "again": said(resend.Emails.send, full, key)["id"],
    "conflict": said(resend.Emails.send, mail("python-5@x.example"), key),
    "invalid": said(resend.Emails.send, mail("nobody")),
    "missing": said(resend.Emails.send, {**mail("python-5@x.example"), "subject": None}),
    "event": said(resend.Emails.get, sent["id"])["last_event"],
}
many = [mail("python-b1@x.example"), mail("python-b2@x.example")]
batch_key = {"idempotency_key": "python-many"}
answer["batch"] = [it["id"] for it in said(resend.Batch.send, many, batch_key)["data"]]
answer["batch_again"] = [it["id"] for it in said(resend.Batch.send, many, batch_key)["data"]]
answer["batch_conflict"] = said(resend.Batch.send, many[1:], batch_key)
mixed = [mail("nobody"), mail("python-b3@x.example")]
answer["strict"] = said(resend.Batch.send, mixed)
permissive = said(resend.Batch.send, mixed, {"batch_validation": "permissive"})
answer["permissive"] = {
    "sent": len(permissive["data"]),
    "errors": [it["index"] for it in permissive["errors"]],
}
resend.api_key = "re_somebody_elses"
answer["stranger"] = said(resend.Emails.send, mail("python-5@x.example"))
for _ in range(60):
    try:
        resend.Emails.send(mail("python-5@x.example"))
    except RateLimitError as error:
        headers = {name.lower(): value for name, value in error.headers.items()}
        answer["limited"] = {
            "name": error.error_type,
            "limit": int(headers["ratelimit-limit"]),
            "remaining": int(headers["ratelimit-remaining"]),
            "reset": int(headers["ratelimit-reset"]),
        }
        break
    except ResendError:
        pass
print(json.dumps(answer))

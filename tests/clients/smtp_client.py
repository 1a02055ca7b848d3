"""Hands mails to Pombo with Python's smtplib, and says what came of it, for the test that runs this.

SMTP_PORT, SMTP_USER and SMTP_KEY say where and as whom; SMTP_CA is whom to trust.
"""

import base64
import json
import os
import smtplib
import socket
import ssl
from email.message import EmailMessage

PORT = int(os.environ["SMTP_PORT"])
USER, KEY = os.environ["SMTP_USER"], os.environ["SMTP_KEY"]
TLS = ssl.create_default_context(cafile=os.environ["SMTP_CA"])
FROM = "mail@clinic.example"


def client():
    smtp = smtplib.SMTP("localhost", PORT, timeout=30)
    smtp.starttls(context=TLS)
    smtp.login(USER, KEY)
    return smtp


def refusal(call):
    try:
        return {"taken": str(call())}
    except smtplib.SMTPRecipientsRefused as error:
        return {to: said[0] for to, said in error.recipients.items()}
    except smtplib.SMTPResponseException as error:
        return error.smtp_code


def mail():
    message = EmailMessage()
    message["From"] = "Clínica <mail@clinic.example>"
    message["To"] = "Ana <ana@x.example>"
    message["Cc"] = "bia@x.example"
    message["Bcc"] = "hidden@x.example"
    message["Subject"] = "Olá, Ana"
    message["Message-ID"] = "<python-1@clinic.example>"
    message["Date"] = "Tue, 14 Nov 2023 22:13:20 +0000"
    message["X-Ref"] = "7"
    message.set_content("oi\n.\n..dots\nFrom here\n")
    message.add_alternative('<p>oi <img src="cid:logo"></p>', subtype="html")
    message.get_payload()[1].add_related(b"\x89PNG" * 400, "image", "png", cid="<logo>")
    message.add_attachment(b"%PDF" * 3000, maintype="application", subtype="pdf", filename="a.pdf")
    return message


def wire(message):
    """The mail as it goes over the wire, its blind copies included: hiding those is the server's part here."""
    return message.as_bytes(policy=message.policy.clone(linesep="\r\n"))


def main():
    said = {}
    # Three recipients, one of whom is none.
    message = mail()
    raw = wire(message)
    with client() as smtp:
        said["offers"] = sorted(smtp.esmtp_features)
        refused = smtp.sendmail(FROM, ["ana@x.example", "bia@x.example", "nobody"], raw)
        said["refused"] = {to: answer[0] for to, answer in refused.items()}
        said["again"] = smtp.sendmail(FROM, ["ana@x.example", "bia@x.example"], raw)
        other = raw.replace(b"X-Ref: 7", b"X-Ref: 8")
        said["other"] = smtp.sendmail(FROM, ["ana@x.example"], other)
        # What no alphabet of today has, in a mail that lacks everything.
        latin = b"Subject: caf\xe9\r\n\r\nol\xe1\r\n" + b"x" * 2000 + b"\r\n"
        said["latin"] = smtp.sendmail("", ["latin@x.example"], latin, mail_options=["BODY=8BITMIME"])
        said["nobody"] = refusal(lambda: smtp.sendmail(FROM, ["nobody"], raw))
        smtp.rset()
        large = b"Subject: large\r\n\r\n" + b"0123456789abcdef\r\n" * 120_000
        said["announced"] = refusal(lambda: smtp.sendmail(FROM, ["ana@x.example"], large))
        smtp.rset()
        # Without saying beforehand how large it is.
        smtp.esmtp_features.pop("size")
        said["large"] = refusal(lambda: smtp.sendmail(FROM, ["ana@x.example"], large))
        said["after"] = smtp.noop()[0]
    said["raw"] = base64.b64encode(raw).decode()
    said["latin_raw"] = base64.b64encode(latin).decode()

    # Strangers, and those who tell everybody their key.
    with smtplib.SMTP("localhost", PORT, timeout=30) as smtp:
        smtp.ehlo()
        said["keyless"] = refusal(lambda: smtp.sendmail(FROM, ["ana@x.example"], raw))
    for name, (user, key) in {"stranger": (USER, "wrong"), "channel": ("nowhere", KEY), "kind": ("hook", KEY)}.items():
        with smtplib.SMTP("localhost", PORT, timeout=30) as smtp:
            smtp.starttls(context=TLS)
            said[name] = refusal(lambda: smtp.login(user, key))
    # Said before the handshake, to be taken for said after it.
    plain = socket.create_connection(("localhost", PORT), timeout=30)
    assert plain.recv(1000).startswith(b"220")
    plain.sendall(b"STARTTLS\r\nNOOP\r\nNOOP\r\n")
    assert plain.recv(1000) == b"220 2.0.0 go ahead\r\n"
    secret = TLS.wrap_socket(plain, server_hostname="localhost")
    secret.sendall(b"HELP\r\nQUIT\r\n")
    lines = b""
    while piece := secret.recv(1000):
        lines += piece
    said["injected"] = [line[:3].decode() for line in lines.splitlines()]
    print(json.dumps(said))


main()

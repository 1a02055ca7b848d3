//! What a client asks for, one line at a time.

use pombo_kernel::content::mailbox;

use super::reply::Reply;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// With extensions, or as it was before there were any.
    Hello {
        name: String,
        extended: bool,
    },
    StartTls,
    Auth {
        mechanism: Mechanism,
        initial: Option<String>,
    },
    /// The sender; empty where no bounce is wanted. And how large the mail is, if that was said.
    Mail {
        from: String,
        size: Option<usize>,
    },
    Rcpt {
        to: String,
    },
    Data,
    Rset,
    Noop,
    Vrfy,
    Help,
    Quit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    Login,
}

impl Command {
    /// Reads a line without its end.
    pub(super) fn read(line: &[u8]) -> Result<Command, Reply> {
        if line.iter().any(|byte| byte.is_ascii_control()) {
            return Err(Reply::new(500, "5.5.2", "a command has a control character"));
        }
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Reply::new(500, "5.5.2", "a command is not ASCII"));
        };
        let line = line.trim_end_matches(' ');
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start_matches(' ');
        let alone = |command| match rest {
            "" => Ok(command),
            _ => Err(Reply::new(501, "5.5.4", "this command stands alone")),
        };
        match verb.to_ascii_uppercase().as_str() {
            hello @ ("EHLO" | "HELO") => match rest.split(' ').next() {
                None | Some("") => Err(Reply::new(501, "5.5.4", "say who you are: EHLO name")),
                Some(name) => Ok(Command::Hello { name: name.to_owned(), extended: hello == "EHLO" }),
            },
            "STARTTLS" => alone(Command::StartTls),
            "AUTH" => auth(rest),
            "MAIL" => mail(rest),
            "RCPT" => rcpt(rest),
            "DATA" => alone(Command::Data),
            "RSET" => alone(Command::Rset),
            "NOOP" => Ok(Command::Noop),
            "VRFY" => Ok(Command::Vrfy),
            "HELP" => Ok(Command::Help),
            "QUIT" => alone(Command::Quit),
            "EXPN" | "TURN" | "BDAT" | "ETRN" => {
                Err(Reply::new(502, "5.5.1", "this command is not for here"))
            }
            _ => Err(Reply::new(500, "5.5.2", "there is no such command")),
        }
    }
}

fn auth(rest: &str) -> Result<Command, Reply> {
    let (mechanism, initial) = rest.split_once(' ').unwrap_or((rest, ""));
    let mechanism = match mechanism.to_ascii_uppercase().as_str() {
        "PLAIN" => Mechanism::Plain,
        "LOGIN" => Mechanism::Login,
        _ => return Err(Reply::new(504, "5.5.4", "use AUTH PLAIN or AUTH LOGIN")),
    };
    let initial = (!initial.is_empty()).then(|| initial.trim().to_owned());
    Ok(Command::Auth { mechanism, initial })
}

fn mail(rest: &str) -> Result<Command, Reply> {
    let (path, parameters) =
        path(rest, "FROM:").ok_or_else(|| Reply::new(501, "5.5.4", "write MAIL FROM:<address>"))?;
    let mut size = None;
    for parameter in parameters.split(' ').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (name.to_ascii_uppercase().as_str(), value.to_ascii_uppercase().as_str()) {
            ("SIZE", digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                size = Some(digits.parse().unwrap_or(usize::MAX));
            }
            ("BODY", "7BIT" | "8BITMIME") => {}
            // Who somebody else believes wrote it: we go by the key alone.
            ("AUTH", _) => {}
            ("SIZE" | "BODY", _) => return Err(Reply::new(501, "5.5.4", "a parameter has no such value")),
            _ => return Err(Reply::new(555, "5.5.4", "a parameter is not known here")),
        }
    }
    if !path.is_empty() {
        address(path).map_err(|what| match what {
            Unfit::NotAscii => Reply::new(553, "5.6.7", "the sender's address is not ASCII"),
            Unfit::NoAddress => Reply::new(553, "5.1.7", "the sender is not an e-mail address"),
        })?;
    }
    Ok(Command::Mail { from: path.to_owned(), size })
}

fn rcpt(rest: &str) -> Result<Command, Reply> {
    let (path, parameters) =
        path(rest, "TO:").ok_or_else(|| Reply::new(501, "5.5.4", "write RCPT TO:<address>"))?;
    if !parameters.trim().is_empty() {
        return Err(Reply::new(555, "5.5.4", "a parameter is not known here"));
    }
    address(path).map_err(|what| match what {
        Unfit::NotAscii => Reply::new(553, "5.6.7", "the recipient's address is not ASCII"),
        Unfit::NoAddress => {
            Reply::new(553, "5.1.3", "the recipient is not an e-mail address: write name@domain")
        }
    })?;
    Ok(Command::Rcpt { to: path.to_owned() })
}

/// What stands in angle brackets after the word, and what follows them.
fn path<'a>(rest: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let head = rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
    let rest = rest[head.len()..].trim_start().strip_prefix('<')?;
    let (path, parameters) = rest.split_once('>')?;
    (parameters.is_empty() || parameters.starts_with(' ')).then_some((path, parameters))
}

enum Unfit {
    NotAscii,
    NoAddress,
}

fn address(text: &str) -> Result<(), Unfit> {
    match mailbox(text) {
        _ if !text.is_ascii() => Err(Unfit::NotAscii),
        Some(bare) if bare == text => Ok(()),
        _ => Err(Unfit::NoAddress),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, u16> {
        Command::read(line.as_bytes()).map_err(|reply| reply.code)
    }

    #[test] // REQ IN-3
    fn commands_are_read_as_clients_write_them() {
        let mail = |from: &str, size| Ok(Command::Mail { from: from.to_owned(), size });
        let auth = |mechanism, initial: Option<&str>| {
            Ok(Command::Auth { mechanism, initial: initial.map(str::to_owned) })
        };
        for (line, expected) in [
            ("ehlo a.example", Ok(Command::Hello { name: "a.example".to_owned(), extended: true })),
            ("HELO [127.0.0.1]", Ok(Command::Hello { name: "[127.0.0.1]".to_owned(), extended: false })),
            ("EHLO", Err(501)),
            ("MAIL FROM:<a@x.example>", mail("a@x.example", None)),
            ("mail from:<a@x.example> size=10 BODY=8bitmime AUTH=<>", mail("a@x.example", Some(10))),
            ("MAIL FROM: <>", mail("", None)),
            ("MAIL FROM:<> SIZE=99999999999999999999999", mail("", Some(usize::MAX))),
            ("MAIL FROM:<a@x> SIZE=-1", Err(501)),
            ("MAIL FROM:<a@x> SMTPUTF8", Err(555)),
            ("MAIL FROM:a@x", Err(501)),
            ("MAIL FROM:<a>", Err(553)),
            ("MAIL FROM:<a@x>SIZE=1", Err(501)),
            ("MAIL FROM:<Ana <a@x>>", Err(501)),
            ("MAIL", Err(501)),
            ("RCPT TO:<b@x.example>", Ok(Command::Rcpt { to: "b@x.example".to_owned() })),
            ("RCPT TO:<>", Err(553)),
            ("RCPT TO:<é@x.example>", Err(553)),
            ("RCPT TO:<b@x.example> NOTIFY=NEVER", Err(555)),
            ("AUTH PLAIN AGEAYg==", auth(Mechanism::Plain, Some("AGEAYg=="))),
            ("auth login", auth(Mechanism::Login, None)),
            ("AUTH CRAM-MD5", Err(504)),
            ("DATA now", Err(501)),
            ("DATA ", Ok(Command::Data)),
            ("NOOP anything", Ok(Command::Noop)),
            ("EXPN list", Err(502)),
            ("GET / HTTP/1.1", Err(500)),
            ("", Err(500)),
            ("RCPT TO:<b@x>\rRCPT TO:<c@x>", Err(500)),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
        assert_eq!(Command::read(b"EHLO \xff").unwrap_err().code, 500);
    }
}

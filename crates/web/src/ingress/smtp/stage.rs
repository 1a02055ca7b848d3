//! A dialogue without a wire, for tests.

use pombo_kernel::kind::ChannelKind;

use super::reply::Reply;
use super::session::{Act, Letter, Session, Terms, Tls};

/// The largest mail.
pub(super) const SIZE: usize = 1_000;

pub(super) fn terms(tls: Tls) -> Terms {
    Terms {
        name: "pombo.example".to_owned(),
        size: SIZE,
        recipients: 3,
        tls,
        plaintext_auth: tls == Tls::Never,
    }
}

/// A session with whoever answers for it: one key is good, and every mail is stored.
pub(super) struct Stage {
    pub(super) session: Session,
    pub(super) said: Vec<u8>,
    pub(super) letters: Vec<Letter>,
    pub(super) over: bool,
    /// The most that the session held at once.
    pub(super) most: usize,
}

impl Stage {
    pub(super) fn new(tls: Tls) -> Stage {
        Stage {
            session: Session::new(terms(tls)),
            said: Vec::new(),
            letters: Vec::new(),
            over: false,
            most: 0,
        }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        if self.over {
            return;
        }
        self.session.hear(bytes);
        while let Some(act) = self.session.next() {
            self.act(act);
            if self.over {
                return;
            }
        }
        self.most = self.most.max(self.session.held());
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Say(reply) => reply.write(&mut self.said),
            Act::End(reply) => {
                reply.write(&mut self.said);
                self.over = true;
            }
            Act::StartTls(reply) => {
                reply.write(&mut self.said);
                self.session.secured();
            }
            Act::LogIn { channel, key } if channel == "email" && key.expose() == "good" => {
                self.session.known(ChannelKind::Smtp);
                Reply::new(235, "2.7.0", "welcome").write(&mut self.said);
            }
            Act::LogIn { .. } => {
                let act = self.session.unknown(Reply::new(535, "5.7.8", "no"));
                self.act(act);
            }
            Act::Take(letter) => {
                self.letters.push(letter);
                self.session.taken();
                Reply::new(250, "2.0.0", "accepted").write(&mut self.said);
            }
        }
    }
}

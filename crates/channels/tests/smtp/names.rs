//! A name server that knows what it is told.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::UdpSocket;

#[derive(Clone, Debug)]
pub(crate) enum Record {
    A(Ipv4Addr),
    Mx(u16, &'static str),
}

/// What is known of a name; of one that is not listed, that it does not exist.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Records(Vec<Record>),
    /// The server fails when asked about it.
    Failing,
}

/// Serves these names until the test is over.
pub(crate) async fn names(known: &[(&str, Known)]) -> SocketAddr {
    let known: HashMap<String, Known> =
        known.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let known = Arc::new(known);
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&answer(&buffer[..length], &known), client).await;
        }
    });
    address
}

/// RFC 1035, as far as one question and A and MX records go.
fn answer(question: &[u8], known: &HashMap<String, Known>) -> Vec<u8> {
    const MX: u16 = 15;
    const A: u16 = 1;
    let mut labels = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let length = usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..at + 1 + length].to_vec()).unwrap().to_lowercase());
        at += length + 1;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let asked = &question[12..at + 5];
    let (code, records) = match known.get(&labels.join(".")) {
        None => (3, Vec::new()),
        Some(Known::Failing) => (2, Vec::new()),
        Some(Known::Records(records)) => (0, records.clone()),
    };
    let fitting: Vec<_> =
        records.iter().filter(|record| kind == if matches!(record, Record::A(_)) { A } else { MX }).collect();
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(fitting.len()).unwrap(), 0, 0, 0, 0]);
    answer.extend(asked);
    for record in fitting {
        let data = match record {
            Record::A(address) => address.octets().to_vec(),
            Record::Mx(preference, host) => {
                let mut data = preference.to_be_bytes().to_vec();
                for label in host.split('.').filter(|label| !label.is_empty()) {
                    data.push(u8::try_from(label.len()).unwrap());
                    data.extend(label.as_bytes());
                }
                data.push(0);
                data
            }
        };
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 60]);
        answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        answer.extend(data);
    }
    answer
}

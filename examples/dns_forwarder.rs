//! A DNS forwarder for tokio: questions go to a resolver in batches, and answers come back in batches.
//!
//! ```text
//! cargo run --release --features tokio --example dns_forwarder
//! ```
//!
//! A forged answer must match what an attacker cannot see: a random port for each batch and a random ID for each
//! question. It must also repeat the question. IDs are rewritten in the receive buffer. Questions over 1,232 bytes and
//! answers over 4,096 are dropped. A made-up resolver answers 200 questions, and the program prints "200 questions answered
//! under the IDs they were asked by".

#[macro_use]
mod common;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::{io, iter, net::SocketAddr, time::Duration};

use mmsg::{Ancillary, RecvBatch, SendMeta, SendMsg, prelude::*};
use tokio::net::UdpSocket;

/// Sockets towards the resolver, each on a port that the system chose.
const PORTS: usize = 16;

/// Pending questions for each port.
const PENDING: usize = 4096;

/// A pending question: its new ID, the client and the client's ID, the settings of the answer, and the question's hash.
struct Asked {
    new: [u8; 2],
    by: SocketAddr,
    id: [u8; 2],
    meta: SendMeta,
    question: u64,
}

struct Upstream {
    socket: UdpSocket,
    /// The new ID chooses the place. When places run short, an unanswered question loses its own.
    asked: Mutex<Vec<Option<Asked>>>,
}

fn place(id: [u8; 2]) -> usize {
    usize::from(u16::from_be_bytes(id)) % PENDING
}

/// The name, type and class of a message with exactly one question.
fn question(message: &[u8]) -> Option<&[u8]> {
    let rest = message.get(12..).filter(|_| message[4..6] == [0, 1])?;
    let mut end = 0;
    // The first name in a message cannot contain a pointer (192 and above).
    while let label @ 1..=63 = *rest.get(end)? {
        end += 1 + usize::from(label);
    }
    rest.get(..end + 5).filter(|_| rest[end] == 0)
}

async fn ask(clients: &UdpSocket, upstreams: &[Upstream], random: &RandomState) -> io::Result<()> {
    let (mut questions, mut count) = (RecvBatch::new(64, 1232), 0u64);
    let mut next_random = || {
        count += 1;
        random.hash_one(count)
    };
    loop {
        if let Err(error) = clients.recv_into(&mut questions).await {
            eprintln!("receive: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await; // An error that lasts makes a line per second.
        }
        let Upstream { socket, asked } = &upstreams[next_random() as usize % PORTS];
        let forwarded = questions.iter_mut().filter_map(|mut message| {
            let (by, meta) = (message.reply_addr()?, message.meta().reply_meta());
            // An answer is no question: two forwarders would pass it to and fro.
            let asks = |_: &&[u8]| !message.truncated() && message.data()[2] < 0x80;
            let question = random.hash_one(question(message.data()).filter(asks)?);
            let mut asked = asked.lock().unwrap();
            let mut ids = iter::repeat_with(|| (next_random() as u16).to_be_bytes());
            let new = ids.by_ref().take(9).find(|id| asked[place(*id)].is_none()).or(ids.next())?;
            let id = std::mem::replace(message.data_mut().first_chunk_mut()?, new);
            asked[place(new)] = Some(Asked { new, by, id, meta, question });
            Some(SendMsg::new(message.into_datagram().data()))
        });
        socket.send_each(forwarded, |_, error| eprintln!("question: {error}")).await?;
    }
}

async fn answer(clients: &UdpSocket, upstream: &Upstream, random: &RandomState) -> io::Result<()> {
    let (mut answers, mut taken) = (RecvBatch::new(64, 4096), Vec::new());
    loop {
        if let Err(error) = upstream.socket.recv_into(&mut answers).await {
            eprintln!("receive: {error}");
            // The resolver's port may be closed for a moment.
            if error.kind() != io::ErrorKind::ConnectionRefused {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        // A message borrows its settings, so the settings of the batch are kept until it is sent.
        taken.clear();
        taken.extend(answers.iter().map(|answer| {
            let (id, question) =
                (answer.data().first_chunk::<2>()?, random.hash_one(question(answer.data())?));
            let asked = &mut upstream.asked.lock().unwrap()[place(*id)];
            asked.take_if(|asked| (asked.new, asked.question) == (*id, question))
        }));
        let returned = answers.iter_mut().zip(&taken).filter_map(|(mut answer, asked)| {
            let asked = asked.as_ref().filter(|_| !answer.truncated())?;
            *answer.data_mut().first_chunk_mut()? = asked.id;
            Some(SendMsg::to(asked.by, answer.into_datagram().data()).with_meta(&asked.meta))
        });
        clients.send_each(returned, |_, error| eprintln!("answer: {error}")).await?;
    }
}

/// Forwards the questions that arrive at `clients`, until a task fails.
pub async fn forward(clients: UdpSocket, resolver: SocketAddr) -> io::Result<()> {
    Ancillary::DEST.require(&clients)?;
    let mut upstreams = Vec::new();
    for _ in 0..PORTS {
        let local = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(local).await?;
        socket.connect(resolver).await?;
        upstreams
            .push(Upstream { socket, asked: Mutex::new((0..PENDING).map(|_| None).collect()) });
    }
    let shared = Arc::new((clients, upstreams, RandomState::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for port in 0..PORTS {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move { answer(&shared.0, &shared.1[port], &shared.2).await });
    }
    tasks.spawn(async move { ask(&shared.0, &shared.1, &shared.2).await });
    tasks.join_next().await.expect("tasks run").map_err(io::Error::other)?
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> common::Result {
    common::no_arguments();
    let resolver = UdpSocket::bind("127.0.0.1:0").await?;
    let clients = UdpSocket::bind("127.0.0.1:0").await?;
    let client = UdpSocket::bind("127.0.0.1:0").await?;
    client.connect(clients.local_addr()?).await?;
    tokio::spawn(forward(clients, resolver.local_addr()?));
    tokio::spawn(async move {
        let mut batch = RecvBatch::new(64, 1232);
        while resolver.recv_into(&mut batch).await.is_ok() {
            let answers = batch.iter().filter_map(|question| question.reply(question.data()));
            let _ = resolver.send_each(answers, |_, error| eprintln!("resolver: {error}")).await;
        }
    });

    let (mut batch, mut answered) = (RecvBatch::new(64, 1232), 0);
    for first in (0..200u16).step_by(20) {
        let questions = (first..first + 20).map(|id| {
            let name = id.to_string();
            let header = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
            [&header, &[name.len() as u8][..], name.as_bytes(), b"\0\0\x01\0\x01"].concat()
        });
        let questions: Vec<_> = questions.collect();
        client.send_each(questions.iter().map(|q| SendMsg::new(q)), |_, e| panic!("{e}")).await?;
        while answered < first + 20 {
            answered += client.recv_into(&mut batch).await? as u16;
            // The answer equals the question, so the client's ID is back.
            assert!(batch.iter().all(|answer| questions.iter().any(|q| q == answer.data())));
        }
    }
    println!("{answered} questions answered under the IDs they were asked by");
    Ok(())
}

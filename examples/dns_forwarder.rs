//! A DNS forwarder: one task, a batch of questions or of answers at a time.
//!
//! ```text
//! cargo run --release --features tokio --example dns_forwarder
//! ```
//!
//! Each question gets an ID of the forwarder's own, which an attacker cannot foresee; the answer gets the
//! client's ID back. Both are rewritten where they were received. Here a made-up resolver answers 200 questions.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::{io, iter, net::SocketAddr};

use mmsg::{Ancillary, RecvBatch, SendMeta, SendMsg, prelude::*};
use tokio::net::UdpSocket;

/// A question under way: the client, its ID, and the options of the answer.
struct Asked {
    by: SocketAddr,
    id: [u8; 2],
    meta: SendMeta,
}

async fn forward(clients: &UdpSocket, resolver: &UdpSocket) -> io::Result<()> {
    Ancillary::DEST.require(clients)?;
    let (mut questions, mut answers) = (RecvBatch::new(64, 1232), RecvBatch::new(64, 4096));
    // At most 65,536: if IDs are scarce, a question that was never answered gives way.
    let mut asked: HashMap<[u8; 2], Asked> = HashMap::new();
    let (random, mut count, mut taken) = (RandomState::new(), 0u64, Vec::new());
    loop {
        tokio::select! {
            result = clients.recv_into(&mut questions) => {
                let whole = questions.iter_mut().filter(|question| !question.truncated());
                let forwarded = whole.filter_map(|mut question| {
                    let (by, meta) = (question.addr()?, question.meta().reply_meta());
                    let mut ids = iter::repeat_with(|| {
                        count += 1;
                        (random.hash_one(count) as u16).to_be_bytes()
                    });
                    let new = ids.by_ref().take(99).find(|id| !asked.contains_key(id)).or(ids.next())?;
                    let id = std::mem::replace(question.data_mut().first_chunk_mut()?, new);
                    asked.insert(new, Asked { by, id, meta });
                    Some(SendMsg::new(question.into_datagram().data()))
                });
                resolver.send_each(forwarded, |_, error| eprintln!("question: {error}")).await?;
                result
            }
            result = resolver.recv_into(&mut answers) => {
                // A message borrows its options, so those of the batch are kept until it is sent.
                taken.clear();
                taken.extend(answers.iter().map(|answer| asked.remove(answer.data().first_chunk::<2>()?)));
                let returned = answers.iter_mut().zip(&taken).filter_map(|(mut answer, asked)| {
                    let asked = asked.as_ref().filter(|_| !answer.truncated())?;
                    *answer.data_mut().first_chunk_mut()? = asked.id;
                    Some(SendMsg::to(asked.by, answer.into_datagram().data()).with_meta(&asked.meta))
                });
                clients.send_each(returned, |_, error| eprintln!("answer: {error}")).await?;
                result
            }
        }
        .map_or_else(|error| eprintln!("receive: {error}"), drop);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let resolver = UdpSocket::bind("127.0.0.1:0").await?;
    let upstream = UdpSocket::bind("127.0.0.1:0").await?;
    upstream.connect(resolver.local_addr()?).await?;
    let clients = UdpSocket::bind("127.0.0.1:0").await?;
    let client = UdpSocket::bind("127.0.0.1:0").await?;
    client.connect(clients.local_addr()?).await?;
    tokio::spawn(async move { forward(&clients, &upstream).await });
    tokio::spawn(async move {
        let mut batch = RecvBatch::new(64, 1232);
        while resolver.recv_into(&mut batch).await.is_ok() {
            let replies = batch.iter().filter_map(|question| question.reply(question.data()));
            let _ = resolver.send_each(replies, |_, error| eprintln!("resolver: {error}")).await;
        }
    });

    let (mut batch, mut answered) = (RecvBatch::new(64, 1232), 0);
    for first in (0..200u16).step_by(20) {
        let questions: Vec<_> = (first..first + 20).map(|id| id.to_be_bytes().repeat(8)).collect();
        client.send_each(questions.iter().map(|q| SendMsg::new(q)), |_, e| panic!("{e}")).await?;
        while answered < first + 20 {
            answered += client.recv_into(&mut batch).await? as u16;
            // The rest of the question is as it was, so the ID must be as well.
            assert!(batch.iter().all(|answer| answer.data()[..2] == answer.data()[2..4]));
        }
    }
    println!("{answered} questions answered under the IDs they were asked by");
    Ok(())
}

//! A DNS proxy: a task for each question waits for its answer, and one task sends all answers.
//!
//! ```text
//! cargo run --release --features tokio --example dns_proxy
//! ```
//!
//! A task owns its question, the client's address, and the settings that make the answer leave from the address that was
//! asked. The channel bounds the tasks: a question without a place for its answer is dropped. One host can take all places
//! with questions that nobody answers; a proxy on the Internet gives each source a share. Only port and ID match an answer
//! to its question; `dns_forwarder.rs` also compares the question. A simulated resolver ignores each question once, so
//! every task asks twice. The program prints "100 questions answered, each by its task".

mod common;

use std::{collections::HashSet, io, net::SocketAddr, sync::Arc, time::Duration};

use mmsg::{Ancillary, RecvBatch, SendMeta, SendMsg, SendQueue, prelude::*};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

/// The client, the settings of the answer, and the answer.
type Answer = (SocketAddr, SendMeta, Vec<u8>);

/// Asks the resolver from a port of its own, up to six times.
async fn resolve(resolver: SocketAddr, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(resolver).await?;
    for tries in 0..6 {
        let mut answer = vec![0; 1232];
        socket.send(&question).await?;
        // A forged answer, with another ID, takes no time from the true one.
        let received = async {
            loop {
                let len = socket.recv(&mut answer).await?;
                if answer[..len].get(..2) == question.get(..2) {
                    break Ok::<_, io::Error>(len);
                }
            }
        };
        if let Ok(len) = timeout(Duration::from_millis(20 << tries), received).await {
            answer.truncate(len?);
            return Ok(answer);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

pub async fn ask(clients: Arc<UdpSocket>, resolver: SocketAddr, answers: Sender<Answer>) {
    let (mut batch, mut dropped) = (RecvBatch::new(64, 1232), 0_u64);
    loop {
        if let Err(error) = clients.recv_into(&mut batch).await {
            eprintln!("receive: {error}");
            tokio::time::sleep(Duration::from_secs(1)).await; // An error that lasts makes a line per second.
        }
        for datagram in &batch {
            let (question, meta) = (datagram.data().to_vec(), datagram.meta().reply_meta());
            // Answers are dropped, too: two proxies would pass them to and fro.
            let is_question = question.get(2).is_some_and(|flags| flags & 0x80 == 0);
            let client = datagram.reply_addr().filter(|_| is_question && !datagram.truncated());
            let (Some(client), Ok(place)) = (client, answers.clone().try_reserve_owned()) else {
                dropped += 1;
                if dropped.is_power_of_two() {
                    eprintln!("dropped so far: {dropped}, no questions, too long, or too many");
                }
                continue;
            };
            tokio::spawn(async move {
                match resolve(resolver, question).await {
                    Ok(answer) => drop(place.send((client, meta, answer))),
                    Err(error) => eprintln!("resolver: {error}"),
                }
            });
        }
    }
}

pub async fn answer(clients: Arc<UdpSocket>, mut answers: Receiver<Answer>) -> io::Result<()> {
    let (mut ready, mut queue) = (Vec::new(), SendQueue::new(1 << 20));
    while answers.recv_many(&mut ready, 256).await > 0 {
        for (client, meta, answer) in ready.drain(..) {
            if let Err(error) = queue.push(&SendMsg::to(client, &answer).with_meta(&meta)) {
                eprintln!("answer: {error}");
            }
        }
        clients.flush_each(&mut queue, |_, error| eprintln!("answer: {error}")).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> common::Result {
    common::no_arguments();
    let resolver = UdpSocket::bind("127.0.0.1:0").await?;
    let clients = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
    Ancillary::DEST.require(&clients)?;
    let client = UdpSocket::bind("127.0.0.1:0").await?;
    client.connect(clients.local_addr()?).await?;
    let (places, answers) = mpsc::channel(1000);
    tokio::spawn(ask(clients.clone(), resolver.local_addr()?, places));
    tokio::spawn(answer(clients, answers));
    tokio::spawn(async move {
        let (mut batch, mut heard) = (RecvBatch::new(64, 1232), HashSet::new());
        while resolver.recv_into(&mut batch).await.is_ok() {
            let again = batch.iter().filter(|question| !heard.insert(question.data().to_vec()));
            let replies = again.filter_map(|question| question.reply(question.data()));
            let _ = resolver.send_each(replies, |_, error| eprintln!("resolver: {error}")).await;
        }
    });

    let questions: Vec<_> = (0..100u16).map(|id| id.to_be_bytes().repeat(8)).collect();
    client.send_each(questions.iter().map(|q| SendMsg::new(q)), |_, e| panic!("{e}")).await?;
    let (mut batch, mut answered) = (RecvBatch::new(64, 1232), HashSet::new());
    while answered.len() < questions.len() {
        client.recv_into(&mut batch).await?;
        answered.extend(batch.iter().filter_map(|a| questions.iter().position(|q| q == a.data())));
    }
    println!("{} questions answered, each by its task", answered.len());
    Ok(())
}

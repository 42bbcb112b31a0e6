//! A game server: each tick applies the players' datagrams and sends the new state to all players.
//!
//! ```text
//! cargo run --release --example game_server
//! ```
//!
//! The state is one payload for all players, so the queue stores it once. Each step carries a token that the server
//! sent to the player's address. A sender with a forged address never sees the token, so it moves nobody, and that
//! address gets 8 bytes for each 9. A token expires within two minutes, since an address may get another owner.
//! 32 players move for 10 ticks, and the program prints "320 states for 32 players".

#[macro_use]
mod common;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use std::{io, thread};

use mmsg::{RecvBatch, SendMsg, SendQueue, prelude::*};

const TICK: Duration = Duration::from_millis(20);
const TICKS: usize = 10;
const PLAYERS: usize = 32;
const MAX_PLAYERS: usize = 256;

struct Player {
    position: i32,
    heard: Instant,
}

struct Game {
    players: HashMap<SocketAddr, Player>,
    /// Makes the token of an address and a minute, with keys of this process.
    tokens: RandomState,
    start: Instant,
}

/// Applies the waiting datagrams without waiting for more. A limit on calls keeps a flood from delaying the tick.
fn receive(socket: &UdpSocket, batch: &mut RecvBatch, game: &mut Game) {
    let Game { players, tokens, start } = game;
    let minute = start.elapsed().as_secs() / 60;
    for _ in 0..64 {
        match socket.recv_into(batch) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                eprintln!("receive: {error}");
                return thread::sleep(Duration::from_secs(1)); // An error that lasts makes a line per second.
            }
            Ok(_) => {}
        }
        for datagram in batch.iter() {
            let (Some(from), [step, token @ ..]) = (datagram.reply_addr(), datagram.data()) else {
                continue;
            };
            // Its own datagrams have other lengths, so it answers neither their echo nor a second server.
            if token.len() != 8 {
                continue;
            }
            let [old, new] =
                [minute, minute + 1].map(|minute| tokens.hash_one((from, minute)).to_be_bytes());
            if token != old && token != new {
                let _ = socket.send_to(&new, from); // If this fails, the player asks again.
            } else if let Some(player) = players.get_mut(&from) {
                player.position = player.position.saturating_add(i32::from(*step as i8));
                player.heard = Instant::now();
            } else {
                // One host cannot take all places.
                let of_host = players.keys().filter(|player| player.ip() == from.ip()).count();
                if players.len() < MAX_PLAYERS && of_host < MAX_PLAYERS / 4 {
                    players.insert(from, Player { position: 0, heard: Instant::now() });
                }
            }
        }
    }
}

pub fn serve(socket: &UdpSocket, ticks: u32) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (players, tokens) = Default::default();
    let (mut batch, mut game) =
        (RecvBatch::new(64, 64), Game { players, tokens, start: Instant::now() });
    let mut queue = SendQueue::for_batch(MAX_PLAYERS, 1200);
    // The game begins when all players have joined.
    while game.players.len() < PLAYERS {
        thread::sleep(TICK);
        receive(socket, &mut batch, &mut game);
    }
    let start = Instant::now();
    for tick in 1..=ticks {
        thread::sleep((start + tick * TICK).saturating_duration_since(Instant::now()));
        receive(socket, &mut batch, &mut game);
        let players = &mut game.players;
        players.retain(|_, player| player.heard.elapsed() < Duration::from_secs(5));
        let mut state = tick.to_be_bytes().to_vec();
        state.extend(players.values().flat_map(|player| player.position.to_be_bytes()));
        if let Err(error) = queue.push_to_all(&SendMsg::new(&state), players.keys().copied()) {
            eprintln!("tick {tick}: {error}");
        }
        // If the socket is full, the rest leaves with the next tick.
        let _ = socket.flush_each(&mut queue, |msg, e| eprintln!("to {:?}: {e}", msg.dest()));
    }
    Ok(())
}

fn main() -> common::Result {
    common::no_arguments();
    let server = UdpSocket::bind("127.0.0.1:0")?;
    let players: Vec<UdpSocket> =
        (0..PLAYERS).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    for player in &players {
        player.connect(server.local_addr()?)?;
        player.send(&[0; 9])?;
    }
    thread::scope(|scope| -> io::Result<()> {
        let server = scope.spawn(|| serve(&server, TICKS as u32));
        let (mut batch, mut heard) = (RecvBatch::new(16, 1200), [0; PLAYERS]);
        // A step and the token.
        let mut steps = [[1; 9]; PLAYERS];
        for (player, step) in players.iter().zip(&mut steps) {
            player.recv(&mut step[1..])?;
            player.send(step)?;
        }
        while heard != [TICKS; PLAYERS] {
            // Counts states, not calls: one call may receive several, and the server sends only `TICKS`.
            let all = players.iter().zip(&steps).zip(&mut heard);
            for ((player, step), heard) in all.filter(|(_, n)| **n < TICKS) {
                *heard += player.recv_into(&mut batch)?;
                assert!(batch.iter().all(|state| state.len() == 4 + 4 * PLAYERS));
                player.send(step)?;
            }
        }
        println!("{} states for {PLAYERS} players", heard.iter().sum::<usize>());
        server.join().expect("no panic")
    })?;
    Ok(())
}

//! A game server: each tick applies the players' datagrams and sends the new state to all players.
//!
//! ```text
//! cargo run --release --example game_server
//! ```
//!
//! The state is one payload for all players, so the queue stores it once. To join, a player returns a token that the
//! server sends to its address: a forged source gets 8 bytes for 8, and never the state. 32 players move for 10 ticks,
//! and the program prints "320 states for 32 players".

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

#[derive(Default)]
struct Game {
    players: HashMap<SocketAddr, Player>,
    /// Makes the token of an address, with keys of this process.
    tokens: RandomState,
}

/// Applies the waiting datagrams without waiting for more. A limit on calls keeps a flood from delaying the tick.
fn receive(socket: &UdpSocket, batch: &mut RecvBatch, game: &mut Game) {
    let Game { players, tokens } = game;
    for _ in 0..64 {
        match socket.recv_into(batch) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            result => result.map_or_else(|error| eprintln!("receive: {error}"), drop),
        }
        for datagram in batch.iter() {
            let Some(from) = datagram.addr() else { continue };
            match (datagram.data(), players.get_mut(&from)) {
                ([step], Some(player)) => {
                    player.position = player.position.saturating_add(i32::from(*step as i8));
                    player.heard = Instant::now();
                }
                (hello, None) if hello.len() == 8 => {
                    let token = tokens.hash_one(from).to_be_bytes();
                    // One host cannot take all places.
                    let of_host = players.keys().filter(|player| player.ip() == from.ip()).count();
                    if players.len() >= MAX_PLAYERS || of_host >= MAX_PLAYERS / 4 {
                        continue;
                    }
                    if hello == token {
                        players.insert(from, Player { position: 0, heard: Instant::now() });
                    } else {
                        let _ = socket.send_to(&token, from); // If this fails, the player asks again.
                    }
                }
                _ => {}
            }
        }
    }
}

fn serve(socket: &UdpSocket, ticks: u32) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let (mut batch, mut game) = (RecvBatch::new(64, 64), Game::default());
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
        // What a full socket does not accept is sent with the next tick.
        let _ = socket.flush_each(&mut queue, |msg, e| eprintln!("to {:?}: {e}", msg.dest()));
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let server = UdpSocket::bind("127.0.0.1:0")?;
    let players: Vec<UdpSocket> =
        (0..PLAYERS).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    for player in &players {
        player.connect(server.local_addr()?)?;
        player.send(&[0; 8])?;
    }
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&server, TICKS as u32));
        let (mut batch, mut heard) = (RecvBatch::new(16, 1200), [0; PLAYERS]);
        for player in &players {
            let mut token = [0; 8];
            player.recv(&mut token)?;
            player.send(&token)?;
        }
        while heard != [TICKS; PLAYERS] {
            // A late player finds several states at once; waiting for each one would then never end.
            for (player, heard) in players.iter().zip(&mut heard).filter(|(_, n)| **n < TICKS) {
                *heard += player.recv_into(&mut batch)?;
                assert!(batch.iter().all(|state| state.len() == 4 + 4 * PLAYERS));
                player.send(&[1])?;
            }
        }
        println!("{} states for {PLAYERS} players", heard.iter().sum::<usize>());
        server.join().expect("no panic")
    })
}

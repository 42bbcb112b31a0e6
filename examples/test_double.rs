//! Tests code that takes `&dyn BatchSocket` without a network.
//!
//! ```text
//! cargo run --example test_double
//! ```
//!
//! A test double implements two methods; the trait provides the others. This one accepts three messages and then
//! fails, which no real socket does on demand. Prints "five sent, one failed: [192.0.2.1:4]".

#[macro_use]
mod common;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use mmsg::{BatchSocket, BatchSocketExt, RecvMsg, SendMsg};

/// The code under test: sends a payload to every address, and returns the addresses that failed.
fn broadcast(socket: &dyn BatchSocket, to: &[SocketAddr], payload: &[u8]) -> Vec<SocketAddr> {
    let mut failed = Vec::new();
    let msgs = to.iter().map(|to| SendMsg::to(*to, payload));
    match socket.send_each(msgs, |i, _| failed.push(to[i])) {
        Ok(handled) => failed.extend(&to[handled..]),
        Err(_) => failed.extend(to),
    }
    failed
}

struct Double {
    sent: RefCell<Vec<Vec<u8>>>,
    /// Results of the next sends, last first: a count or an error. When it is empty, sends accept everything.
    script: RefCell<Vec<io::Result<usize>>>,
}

impl BatchSocket for Double {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        let next = self.script.borrow_mut().pop();
        let count = next.unwrap_or(Ok(msgs.len()))?.min(msgs.len());
        let sent = msgs[..count].iter().map(|msg| msg.slices().collect::<Vec<_>>().concat());
        self.sent.borrow_mut().extend(sent);
        Ok(count)
    }
}

fn main() {
    common::no_arguments();
    let to: Vec<SocketAddr> = (1..=6).map(|port| ([192, 0, 2, 1], port).into()).collect();
    // In reverse order: the first send accepts three, the second fails.
    let script = vec![Err(io::ErrorKind::PermissionDenied.into()), Ok(3)];
    let double = Double { sent: RefCell::default(), script: RefCell::new(script) };
    let failed = broadcast(&double, &to, b"news");
    assert_eq!(failed, to[3..4]);
    assert_eq!(*double.sent.borrow(), vec![b"news"; 5]);
    println!("five sent, one failed: {failed:?}");
}

#![doc = include_str!("../README.md")]
//!
//! # Which datagram goes where
//!
//! | [`Spread`] | a peer's datagrams | for |
//! |---|---|---|
//! | `FLOW` | to one member, in order | servers with many clients |
//! | `CPU` | to one member, as long as they come in on one CPU | the same, where the network device has a queue for each CPU |
//! | `RANDOM` | to all members, in no order | collectors with a few heavy sources |
//! | `by` bytes of the payload | to the member that these bytes name | QUIC by connection ID, exact turns by a sequence number |
//!
//! - The kernel cannot take turns: its programs have no memory. `RANDOM` is even to within 1 % from about 100,000
//!   datagrams a member.
//! - A member that no thread reads still gets its share. So a thread that ends must close its socket, or take it out of
//!   the group.
//! - By flow, a peer that changes its address, as QUIC connections may, goes to another member. Spread by the
//!   connection ID instead, or hand the datagrams over by a channel.
//!
//! # Stopping
//!
//! [`run`](ReusePortGroup::run) returns when all its threads have. Give the sockets a read timeout, and check a flag
//! between receives:
//!
//! ```
//! use mmsg::{BatchSocket, RecvBatch};
//! use mmsg_reuseport::ReusePortGroup;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//!
//! let group = ReusePortGroup::builder("127.0.0.1:0".parse().unwrap())
//!     .members(1)
//!     .prepare(|socket| socket.set_read_timeout(Some(Duration::from_millis(50))))
//!     .bind()?;
//! let stop = AtomicBool::new(false);
//! # stop.store(true, Ordering::Relaxed);
//! group.run(|_index, socket| {
//!     let mut batch = RecvBatch::new(64, 1500);
//!     while !stop.load(Ordering::Relaxed) {
//!         if socket.recv_into(&mut batch).is_ok() {
//!             // Work on the batch.
//!         }
//!     }
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Tokio tasks can serve a group, too: `prepare` the sockets with `set_nonblocking(true)`, and pass each one to
//! `tokio::net::UdpSocket::from_std`.
//!
//! # What a group costs
//!
//! A group makes a program faster by using more CPUs, but each datagram takes more CPU time. The table shows how many
//! datagrams the threads receive per second of CPU time, as a ratio to one thread with one socket: `RANDOM`, one
//! source, 200 bytes, batches of 64 (Linux 6.18, a virtual machine with two CPUs, nothing else on it, medians of 41
//! rounds). In the last two columns, the ratio is to the same number of sockets, each with its own port.
//!
//! | datagrams | 2 members | 4 members | 2, to separate sockets | 4, to separate sockets |
//! |---|---|---|---|---|
//! | few queued, members read in turn | 0.97 | 0.94 | 0.98 | 0.95 |
//! | all queued, members read at once | 0.70 | 0.59 | 0.92 | 0.79 |
//! | arriving while the threads wait | 0.69 | 0.59 | 0.72 | 0.65 |
//!
//! The first row shows the group's own cost: the program that picks a member, and fuller batches for one socket. In the
//! other rows most of the cost is contention between the CPUs, and that threads with a share of the datagrams wake for
//! fewer at a time. Separate sockets pay a good part of that, too. So use no more members than the load needs. To
//! measure: `cargo test --release -p mmsg-reuseport --test group -- --ignored --nocapture cost`.
//!
//! # Joining, leaving, restarting
//!
//! Nothing is lost when a member joins: [`join`](ReusePortGroup::join) adds one, and any process of the same user
//! can bind a group to the same address, unless it asks for an [`exclusive`](ReusePortGroupBuilder::exclusive)
//! one. By flow, some flows move to the new member.
//!
//! The kernel drops the datagrams that wait in a socket when it is closed. (The setting `net.ipv4.tcp_migrate_req`,
//! which hands over the connections of closed sockets, is for TCP alone.) So a member leaves in two steps.
//! [`leave`](ReusePortGroup::leave) and [`leave_all`](ReusePortGroup::leave_all) take it out of the kernel's group and
//! return its socket, which gets nothing more. Then receive until `WouldBlock`, and drop it.
//!
//! A socket that has left cannot send: it is bound to a network interface that does not exist. Reply to its datagrams
//! from another socket.
//!
//! **A restart** without loss: the new process binds its group while the old one still runs, and the old
//! one calls `leave_all` and receives the rest. The threads of `run` end before that; datagrams that come
//! meanwhile wait in the sockets. To lose no *replies* either, hand the sockets themselves to the new process, which makes a
//! group of them by [`from_sockets`](ReusePortGroup::from_sockets), as in [the README's server](crate#a-restart-that-keeps-the-sockets).

#![deny(unsafe_code, clippy::undocumented_unsafe_blocks, missing_docs)]

mod builder;
mod group;
mod spread;
mod sys;

pub use builder::ReusePortGroupBuilder;
pub use group::ReusePortGroup;
pub use spread::{Field, Spread};

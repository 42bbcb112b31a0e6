//! Scripts at random, against a naive twin that goes over the system calls that were made.
//!
//! The twin knows nothing of steps, headers or arenas. It gets the result of each system call, and
//! computes what the library must have returned.

use proptest::prelude::*;

use super::fates::fates;
use super::*;

/// Error numbers with a meaning to the library, and two without.
const CODES: [i32; 7] = [
    errno::EINTR,
    errno::EAGAIN,
    errno::ECONNREFUSED,
    errno::EPERM,
    errno::ENOSYS,
    errno::ENOBUFS,
    errno::EMSGSIZE,
];

/// What the twin makes of the system calls of one call of the library.
#[derive(Default)]
struct Twin {
    /// An error after a partial transfer that no later call would meet again.
    deferred: Option<i32>,
}

impl Twin {
    /// `moves` says how many messages a system call moves that is left to the kernel and offers so
    /// many; none means that it would block. `is_lost` says which error would be lost.
    fn expects(
        &mut self,
        log: &[LoggedCall],
        mut moves: impl FnMut(usize) -> usize,
        is_lost: impl Fn(i32) -> bool,
    ) -> Result<usize, i32> {
        if let Some(deferred) = self.deferred.take() {
            assert_eq!(log, [], "what is known needs no system call");
            return Err(deferred);
        }
        let (mut moved, mut error) = (0, None);
        let questions = |made: &LoggedCall| made.call == Call::Permitted;
        for (i, made) in log.iter().enumerate().filter(|(_, made)| !questions(made)) {
            assert_eq!(error, None, "a call goes on after an error: {log:?}");
            let many = matches!(made.call, Call::SendMmsg | Call::RecvMmsg);
            let failed = |made: &LoggedCall| matches!(made.fate, Fate::Fail(_));
            let sandboxed = log.get(i + 1).is_some_and(|next| questions(next) && failed(next));
            match made.fate {
                Fate::Fail(errno::EINTR) => {}
                Fate::Fail(errno::ENOSYS) if many => {}
                Fate::Fail(errno::EPERM) if many && sandboxed => {}
                Fate::Fail(code) => error = Some(code),
                Fate::Kernel | Fate::AtMost(_) => {
                    let most = if let Fate::AtMost(most) = made.fate { most } else { usize::MAX };
                    let step = moves(made.offered.min(most));
                    moved += step;
                    if step == 0 {
                        error = Some(errno::EAGAIN);
                    }
                }
            }
        }
        match error {
            Some(code) if moved == 0 => Err(code),
            Some(code) => {
                self.deferred = Some(code).filter(|code| is_lost(*code));
                Ok(moved)
            }
            None => Ok(moved),
        }
    }
}

fn number_of_error(result: io::Result<usize>) -> Result<usize, i32> {
    result.map_err(|error| error.raw_os_error().expect("the system's"))
}

proptest! {
    /// Every message is sent or its error reported, never both, in order; and the caller gets what
    /// the kernel answered.
    #[test]
    fn each_sent_message_is_reported_with_one_outcome(
        backend in prop::sample::select(&BACKENDS[..]),
        way in 0usize..5,
        n in 0u32..40,
        fates in fates(&CODES, Call::SendMmsg, Call::SendMsg),
    ) {
        let wire = Wire::new();
        let way = Sending::all(backend)[way].choose(backend);
        let data = numbers(0..n);
        let msgs = wire.msgs(&data);
        let mut twin = Twin::default();
        let (mut at, mut sent) = (0, Vec::new());
        fault::script(fates);
        while at < msgs.len() {
            let result = number_of_error(way.send(&wire.near, &msgs[at..]));
            let log = fault::log();
            let expected = twin.expects(&log, |offered| offered, |code| code == errno::ECONNREFUSED);
            prop_assert_eq!(result, expected, "{:?}", log);
            match result {
                Ok(count) => {
                    sent.extend(at as u32..(at + count) as u32);
                    at += count;
                }
                Err(errno::EAGAIN) => {}
                // Given up.
                Err(_) => at += 1,
            }
        }
        fault::script([]);
        // The socket's next user would get an error that is left over.
        prop_assert_eq!(twin.deferred, None);
        prop_assert_eq!(wire.delivered(), sent);
    }

    /// The same for `send_each`, which makes the calls by itself.
    #[test]
    fn send_each_gives_each_message_one_outcome(
        backend in prop::sample::select(&BACKENDS[..]),
        n in 0u32..40,
        fates in fates(&CODES, Call::SendMmsg, Call::SendMsg),
    ) {
        let wire = Wire::new();
        backend.make_process_default().unwrap();
        let data = numbers(0..n);
        let msgs = wire.msgs(&data);
        let (mut at, mut failed) = (0, Vec::new());
        fault::script(fates);
        while at < msgs.len() {
            let mut tell = |index: usize, _: io::Error| failed.push((at + index) as u32);
            match wire.near.send_each(&msgs[at..], &mut tell) {
                Ok(done) => {
                    prop_assert!(done > 0);
                    at += done;
                }
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        fault::script([]);
        prop_assert!(failed.is_sorted_by(|a, b| a < b), "reported twice or out of order: {:?}", failed);
        let good: Vec<_> = (0..n).filter(|i| !failed.contains(i)).collect();
        prop_assert_eq!(wire.delivered(), good);
    }

    /// Every datagram comes once, in order, and so does every error of the system.
    #[test]
    fn every_datagram_and_every_error_is_received_once(
        backend in prop::sample::select(&BACKENDS[..]),
        way in 0usize..4,
        n in 0u32..60,
        capacities in prop::collection::vec(1usize..50, 1..8),
        fates in fates(&CODES, Call::RecvMmsg, Call::RecvMsg),
    ) {
        let wire = Wire::new();
        wire.far.set_nonblocking(true).unwrap();
        wire.fill(0..n);
        let way = Receiving::all(backend)[way].choose(backend);
        let mut twin = Twin::default();
        let (mut waiting, mut received) = (n as usize, Vec::new());
        fault::script(fates);
        for capacity in capacities.into_iter().cycle() {
            let result = way.recv(&wire.far, capacity);
            let log = fault::log();
            let moves = |offered: usize| {
                let moved = offered.min(waiting);
                waiting -= moved;
                moved
            };
            let expected = twin.expects(&log, moves, |code| code != errno::EAGAIN);
            let count = number_of_error(result.as_ref().map(Vec::len).map_err(|error| {
                io::Error::from_raw_os_error(error.raw_os_error().expect("the system's"))
            }));
            prop_assert_eq!(count, expected, "{:?}", log);
            received.extend(result.unwrap_or_default());
            // Over when the kernel itself has said that there is nothing.
            let asked = log.last().is_some_and(|made| made.fate == Fate::Kernel);
            if count == Err(errno::EAGAIN) && asked {
                break;
            }
        }
        fault::script([]);
        prop_assert_eq!(twin.deferred, None);
        prop_assert_eq!(received, (0..n).collect::<Vec<_>>());
    }
}

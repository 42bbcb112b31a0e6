//! Limits the connections: when all places are taken, a new connection ends the one that has been idle longest.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::limit::network;

/// The connections of one listener.
pub struct Places {
    max: usize,
    /// The maximum for one client network, so that it cannot take all places.
    max_each: usize,
    taken: Vec<Place>,
}

struct Place {
    network: (bool, u64),
    active: Active,
    task: AbortHandle,
}

/// The time of a connection's last activity, in milliseconds since the listener started.
#[derive(Clone)]
pub struct Active(Arc<AtomicU64>, Instant);

impl Active {
    pub fn touch(&self) {
        self.0.store(self.1.elapsed().as_millis() as u64, Relaxed);
    }
}

impl Places {
    pub fn new(max: usize, max_each: usize) -> Self {
        Self { max, max_each, taken: Vec::with_capacity(max) }
    }

    /// Accepts connections and runs `serve` on each.
    pub async fn run<F: Future<Output = ()> + Send + 'static>(
        mut self,
        listener: TcpListener,
        serve: impl Fn(TcpStream, IpAddr, Active) -> F,
    ) {
        let start = Instant::now();
        loop {
            let accepted = listener.accept().await;
            self.taken.retain(|place| !place.task.is_finished());
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    // The process is out of descriptors or memory. Ending a connection frees some; if there is none to end,
                    // the task sleeps instead of spinning.
                    if self.evict(|_| true) {
                        tokio::task::yield_now().await;
                    } else {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    continue;
                }
            };
            let network = network(from.ip());
            let of_network = |place: &Place| place.network == network;
            if self.taken.iter().filter(|place| of_network(place)).count() >= self.max_each {
                self.evict(of_network);
            } else if self.taken.len() >= self.max {
                self.evict(|_| true);
            }
            let active = Active(Arc::default(), start);
            active.touch();
            let task = tokio::spawn(serve(stream, from.ip(), active.clone())).abort_handle();
            self.taken.push(Place { network, active, task });
            // A request that is already there is read before the next connection can end this one.
            tokio::task::yield_now().await;
        }
    }

    /// Of the connections that `of` selects, ends the one that was idle longest. Returns whether there was one.
    fn evict(&mut self, of: impl Fn(&Place) -> bool) -> bool {
        let candidates = self.taken.iter().enumerate().filter(|(_, place)| of(place));
        let Some((index, _)) = candidates.min_by_key(|(_, place)| place.active.0.load(Relaxed))
        else {
            return false;
        };
        self.taken.swap_remove(index).task.abort();
        true
    }
}

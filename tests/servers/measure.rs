//! A process's CPU time, descriptors and memory (proc(5)).

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::running::PATIENCE;

/// Resident memory in KiB.
pub fn memory(pid: u32) -> u64 {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("VmRSS of a process that runs")
}

/// Open descriptors.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the descriptors of a child").count()
}

/// Waits until the process has at most `most` descriptors.
pub fn wait_for_descriptors(name: &str, pid: u32, most: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors(pid) > most {
        assert!(Instant::now() < end, "{name}: {} descriptors, {most} before", descriptors(pid));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a quarter of a second in which the process uses less than 4 % of a CPU. A spinning process never has one,
/// however busy the machine is.
pub fn wait_for_rest(name: &str, pid: u32) {
    let window = Duration::from_millis(250);
    let end = Instant::now() + PATIENCE;
    loop {
        let before = processor_time(pid);
        thread::sleep(window);
        let taken = processor_time(pid) - before;
        if taken < window / 25 {
            return;
        }
        assert!(Instant::now() < end, "{name}: takes {taken:?} of {window:?} with nothing to do");
    }
}

/// User and system time so far.
fn processor_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The second field, the program's name in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().expect("a number of ticks")).sum();
    // SAFETY: it takes no pointers.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let a_second = u64::try_from(a_second).expect("ticks are counted");
    Duration::from_millis(1_000 * ticks / a_second)
}

fn read(pid: u32, name: &str) -> String {
    let path = format!("/proc/{pid}/{name}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: the server ended? {error}"))
}

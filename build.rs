//! Turns the target into the few names that `src/sys/` is written in.
//!
//! | name          | means                                                             |
//! |---------------|-------------------------------------------------------------------|
//! | `linux_like`  | the Linux kernel: Linux and Android                               |
//! | `mmsg_calls`  | the C library has `recvmmsg` and `sendmmsg` (OpenBSD 7.2)         |
//! | `mmsg_extern` | ... but the libc crate does not declare them                      |
//! | `sa_len`      | `sockaddr` begins with its own length, as in the BSDs             |
//! | `has_descriptors` | sockets are file descriptors: Unix                             |

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let os = os.as_str();

    let bsd = ["freebsd", "dragonfly", "netbsd", "openbsd"];
    let apple = ["macos", "ios", "tvos", "watchos", "visionos"];

    // Set by fuzzers, and by the script that runs the sanitizers.
    println!("cargo:rustc-check-cfg=cfg(fuzzing)");
    println!("cargo:rustc-check-cfg=cfg(planted_fault)");
    set("linux_like", ["linux", "android"].contains(&os));
    set("mmsg_calls", ["linux", "android", "freebsd", "netbsd", "openbsd"].contains(&os));
    set("mmsg_extern", os == "netbsd");
    set("has_descriptors", env::var_os("CARGO_CFG_UNIX").is_some());
    set("sa_len", bsd.contains(&os) || apple.contains(&os));
}

/// Declares the name to the compiler, so that a misspelt one is an error, and turns it on if asked.
fn set(name: &str, on: bool) {
    println!("cargo:rustc-check-cfg=cfg({name})");
    if on {
        println!("cargo:rustc-cfg={name}");
    }
}

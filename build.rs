//! Turns the target into the few names that `src/sys/` is written in.
//!
//! | name          | means                                                             |
//! |---------------|-------------------------------------------------------------------|
//! | `linux_like`  | the Linux kernel: Linux and Android                               |
//! | `mmsg_calls`  | the C library has `recvmmsg` and `sendmmsg` (OpenBSD 7.2)         |
//! | `mmsg_extern` | ... but the libc crate does not declare them                      |
//! | `msg_x_calls` | Apple's `recvmsg_x` and `sendmsg_x` are looked for, by the feature    |
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
    // The kernel does not return the length of a source address to a 32-bit program (`recvmsg_x` in
    // bsd/kern/uipc_syscalls.c).
    let is_64_bit = env::var("CARGO_CFG_TARGET_POINTER_WIDTH").is_ok_and(|width| width == "64");
    let asked = env::var_os("CARGO_FEATURE_APPLE_PRIVATE_API").is_some();
    set("msg_x_calls", apple.contains(&os) && is_64_bit && asked);
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

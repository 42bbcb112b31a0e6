//! Sets a few names for the target, so that `src/sys/` needs no lists of operating systems.
//!
//! | name              | means                                                         |
//! |-------------------|---------------------------------------------------------------|
//! | `linux_like`      | the Linux kernel: Linux and Android                           |
//! | `mmsg_calls`      | the C library has `recvmmsg` and `sendmmsg` that work         |
//! | `sa_len`          | `sockaddr` begins with its own length, as in the BSDs         |
//! | `has_descriptors` | sockets are file descriptors: Unix                            |

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let os = os.as_str();

    let bsd = ["freebsd", "dragonfly", "netbsd", "openbsd"];
    let apple = ["macos", "ios", "tvos", "watchos", "visionos"];

    // Set by the fuzzers, and by the script that runs the sanitizers.
    println!("cargo:rustc-check-cfg=cfg(fuzzing)");
    println!("cargo:rustc-check-cfg=cfg(planted_fault)");
    set("linux_like", ["linux", "android"].contains(&os));
    set("mmsg_calls", ["linux", "android", "freebsd", "openbsd"].contains(&os));
    set("has_descriptors", env::var_os("CARGO_CFG_UNIX").is_some());
    set("sa_len", bsd.contains(&os) || apple.contains(&os));
}

/// Turns the name on or off. Declaring it lets the compiler reject misspelt names.
fn set(name: &str, on: bool) {
    println!("cargo:rustc-check-cfg=cfg({name})");
    if on {
        println!("cargo:rustc-cfg={name}");
    }
}

#!/usr/bin/env bash
# programs/quic/suites.sh [FOLDER]
#
# Runs the tests of quinn-udp, quinn and noq on this crate, in the versions of Cargo.lock and from cargo's copies of the
# sources:
#   1. quinn-udp 0.6's tests on crates/quinn-udp, by one line of their Cargo.toml;
#   2. quinn's tests on a quinn whose quinn-udp 0.5 is patches/quinn-udp-0.5;
#   3. quinn's tests on crates/quinn, and noq's on crates/noq, with only the runtime replaced.
# FOLDER (target/suites) holds the sources and builds. It may be deleted at any time. The folders udp and stock in it
# have quinn-udp's benchmark too, on this crate and on quinn-udp: cargo bench --bench throughput
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD folder=${1:-target/suites}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# source_of PACKAGE MINOR: the folder of a package that Cargo.lock names.
source_of() {
    cargo metadata --locked --format-version 1 | python3 -c '
import json, os, sys
name, minor = sys.argv[1:]
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == name and package["version"].startswith(minor + "."):
        print(os.path.dirname(package["manifest_path"]), package["version"])' "$@"
}
read -r quinn quinn_version < <(source_of quinn 0.11)
read -r udp udp_version < <(source_of quinn-udp 0.6)
read -r noq noq_version < <(source_of noq 1)

rm -rf "$folder"/{udp,stock,patched,adopted-*}
mkdir -p "$folder"/{udp,stock,patched}
cp Cargo.lock "$folder/patched/"

# quinn-udp's tests and benchmark are those of a crate that depends on it.
# dependent FOLDER DEPENDENCY
dependent() {
    cp -r "$udp"/{tests,benches} "$1"
    cp Cargo.lock "$1"
    cat >"$1/Cargo.toml" <<END
[workspace]

[package]
name = "$(basename "$1")"
version = "0.0.0"
edition = "2024"

[lib]
path = "/dev/null"
bench = false

[dependencies]
quinn-udp = $2

[dev-dependencies]
criterion = { version = "0.8", default-features = false, features = ["async_tokio"] }
libc = "0.2"
socket2 = "0.6"
tokio = { version = "1", features = ["rt", "rt-multi-thread", "net"] }

[[bench]]
name = "throughput"
harness = false
END
}
dependent "$folder/udp" "{ package = \"mmsg-quinn-udp\", path = \"$root/crates/quinn-udp\" }"
dependent "$folder/stock" "\"=$udp_version\""

cp -r "$quinn" "$folder/patched/quinn"
chmod -R u+w "$folder"/{udp,stock,patched}
cat >"$folder/patched/Cargo.toml" <<END
[workspace]
members = ["quinn"]
resolver = "2"

[patch.crates-io]
quinn-udp = { path = "$root/patches/quinn-udp-0.5" }
END

# adopt NAME SOURCE VERSION RUNTIME: the tests of quinn or noq in a package whose endpoints have RUNTIME's sockets.
adopt() {
    local name=$1 source=$2 version=$3 crate=$4 to=$folder/adopted-$1 file
    mkdir -p "$to/tests"
    cp Cargo.lock "$to"
    # The tests' dependencies are the package's own and its dev-dependencies.
    {
        cat <<END
[workspace]

[package]
name = "adopted-$name"
version = "0.0.0"
edition = "$(sed -n 's/^edition = "\(.*\)"/\1/p' "$source/Cargo.toml")"

[features]
default = ["ring", "rustls-ring"]
ring = []
rustls-ring = []
aws-lc-rs = []
rustls-aws-lc-rs = []

[lib]
path = "/dev/null"

[dependencies]
bytes = "1"
mmsg-$name = { path = "$root/crates/$name" }
proto = { package = "$name-proto", version = "${version%.*}" }
$name = "=$version"
rustls = { version = "0.23", default-features = false, features = ["ring", "std"] }
tracing = "0.1"

END
        sed -n '/^\[dev-dependencies/,/^\[\(build-dependencies\|target\)/p' "$source/Cargo.toml" | sed '$d'
    } >"$to/Cargo.toml"
    for file in src/tests.rs tests/many_connections.rs; do
        {
            # (A package cannot have a feature with the name of its dependency rustls.)
            sed -e '/^#!\[cfg(all(feature = "rustls"/d' \
                -e "s/use crate::runtime::{\(.*\), TokioRuntime}/use $name::{\1}; use $crate::TokioRuntime/" \
                -e "s/use crate::runtime::TokioRuntime/use $crate::TokioRuntime/" \
                -e 's/use crate::{Duration, Instant}/use std::time::{Duration, Instant}/' \
                -e 's/\bTokioRuntime\([.)]\)/TokioRuntime::default()\1/' -e 's/crate::runtime::/crate::/g' \
                -e "s/use super::{/use $name::{/" -e "s/crate::/$name::/g" \
                -e "s/\\($name::\\)\\?Endpoint::server(/adopted_server(/" \
                -e "s/\\($name::\\)\\?Endpoint::client(/adopted_client(/" "$source/$file"
            cat <<END

fn adopted(config: Option<$name::ServerConfig>, addr: std::net::SocketAddr) -> std::io::Result<$name::Endpoint> {
    let runtime = std::sync::Arc::new($crate::TokioRuntime::default());
    $name::Endpoint::new(Default::default(), config, std::net::UdpSocket::bind(addr)?, runtime)
}
#[allow(dead_code)]
fn adopted_server(config: $name::ServerConfig, addr: std::net::SocketAddr) -> std::io::Result<$name::Endpoint> {
    adopted(Some(config), addr)
}
#[allow(dead_code)]
fn adopted_client(addr: std::net::SocketAddr) -> std::io::Result<$name::Endpoint> {
    adopted(None, addr)
}
END
        } >"$to/tests/$(basename "${file/src\/tests/$name}")"
    done
}
adopt quinn "$quinn" "$quinn_version" mmsg_quinn
adopt noq "$noq" "$noq_version" mmsg_noq

echo "quinn-udp $udp_version, quinn $quinn_version, noq $noq_version"
export CARGO_TARGET_DIR=$folder/target
status=0
cd "$folder/udp"
cargo test --test tests || status=1
# Two of quinn's tests allow themselves 100 ms: on a busy machine they may fail with "timeout" or "ConnectionClosed".
cd "$folder/patched"
cargo test --no-fail-fast -p quinn --lib --test many_connections -- --include-ignored || status=1
for name in quinn noq; do
    cd "$folder/adopted-$name"
    cargo test --no-fail-fast --tests -- --include-ignored || status=1
done
exit $status

#!/usr/bin/env bash
# benches/compare/xnet/queue.sh [--test]
#
# Compares SendQueue with the queue of outgoing frames in golang.org/x/net's http2: 25 entries pushed and popped. Ours copy
# 16 bytes each, to an address in memory; theirs hold empty frames, as in that package's own benchmark. Both programs take
# turns; a ratio is the median of the ratios of each pair of turns.
#
# "pops" discards the front of our queue; "flush" hands all entries to a socket of the program's own.
#
# With --test: one short turn each, no table. Needs Go, and its modules from Go's cache or a module proxy.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

skip() { echo "skipped: the comparison with the queue of golang.org/x/net: $1"; exit 0; }

command -v go >/dev/null || skip "Go is not installed"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
here=$PWD/benches/compare/xnet
export GOFLAGS=-mod=readonly
(cd "$here" && go mod download && go list -m -f '{{.Dir}}' golang.org/x/net) >"$scratch/log" 2>&1 ||
    skip "cannot get its module: $(tail -n 1 "$scratch/log")"
module=$(tail -n 1 "$scratch/log")
cp -r --no-preserve=mode "$module" "$scratch/net"
rm "$scratch"/net/http2/*_test.go
cp "$here/http2/queue_test.go" "$scratch/net/http2/"
(cd "$scratch/net" && go test -c -o "$scratch/http2" ./http2) >"$scratch/log" 2>&1 ||
    skip "cannot build it: $(tail -n 1 "$scratch/log")"
target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --quiet --locked --release -p compare

theirs() { MMSG_QUEUE_MS=$1 "$scratch/http2" -test.run TestMmsgQueue | grep '^http2,'; }
ours() { "$target/release/compare" beside-http2 "$1"; }

if [ "${1:-}" = --test ]; then
    { theirs 1; ours 1; } >"$scratch/turns"
    [ "$(wc -l <"$scratch/turns")" = 3 ] || { cat "$scratch/turns" >&2; exit 1; }
    echo "both queues took a turn"
    exit
fi

for round in $(seq 25); do
    # Each program goes first in every other round.
    if [ $((round % 2)) = 0 ]; then theirs 50; ours 50; else ours 50; theirs 50; fi | sed "s/^/$round,/"
done >"$scratch/turns"

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
printf '%-8s %12s %10s\n' way "ns an entry" "/ http2"
for way in http2 pops flush; do
    ns=$(awk -F, -v way=$way '$2 == way { print $3 }' "$scratch/turns" | median)
    ratio=$(awk -F, -v way=$way '$2 == "http2" { theirs[$1] = $3 } $2 == way { ours[$1] = $3 }
        END { for (round in ours) print ours[round] / theirs[round] }' "$scratch/turns" | median)
    printf '%-8s %12.2f %10.3f\n' $way "$ns" "$ratio"
done

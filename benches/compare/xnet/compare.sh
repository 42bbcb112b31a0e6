#!/usr/bin/env bash
# benches/compare/xnet/compare.sh [--test]
#
# Compares this crate with the Go library golang.org/x/net, on the work of that library's own benchmark: send M messages
# of 15 bytes over loopback, then receive them, for M from 1 to 512. Both programs take turns. A ratio is the median
# ratio of elapsed times of each pair of turns. CPU time covers all threads of a program, also Go's garbage collector.
#
# Prints a table and writes it to target/throughput/xnet.csv. With --test: one short turn each, no table.
#
# Needs Go, and the module golang.org/x/net from Go's cache or a module proxy.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

skip() { echo "skipped: the comparison with golang.org/x/net: $1"; exit 0; }

command -v go >/dev/null || skip "Go is not installed"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd benches/compare/xnet && GOFLAGS=-mod=readonly go mod download) >"$scratch/log" 2>&1 ||
    skip "cannot get its module: $(tail -n 1 "$scratch/log")"
(cd benches/compare/xnet && GOFLAGS=-mod=readonly go build -o "$scratch/xnet" .) >"$scratch/log" 2>&1 ||
    skip "cannot build it: $(tail -n 1 "$scratch/log")"
target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --quiet --locked --release -p compare
program=$target/release/compare tables=$target/throughput
mkdir -p "$tables"

if [ "${1:-}" = --test ]; then
    "$scratch/xnet" 1 >"$scratch/turns"
    "$program" beside-xnet 1 >>"$scratch/turns"
    [ "$(wc -l <"$scratch/turns")" = 40 ] || { cat "$scratch/turns" >&2; exit 1; }
    echo "both sent and received batches of every size"
    exit
fi

for round in $(seq 15); do
    # Each program goes first in every other round.
    if [ $((round % 2)) = 0 ]; then
        "$scratch/xnet" 20
        "$program" beside-xnet 20
    else
        "$program" beside-xnet 20
        "$scratch/xnet" 20
    fi | sed "s/^/$round,/"
done >"$scratch/turns"

# A row for each size and way: median times, and median ratios to x/net in the same round.
awk -F, '
    { wall[$1, $2, $3] = $4; cpu[$1, $2, $3] = $5; allocations[$2, $3] = $6; rounds = $1 }
    function median(values, n,   i, j, value) {
        for (i = 2; i <= n; i++) {
            value = values[i]
            for (j = i - 1; j > 0 && values[j] > value; j--) values[j + 1] = values[j]
            values[j + 1] = value
        }
        return values[int((n + 1) / 2)]
    }
    function of(table, way, size, relative,   r, values, other) {
        for (r = 1; r <= rounds; r++) {
            other = relative ? table[r, "x/net", size] : 1
            values[r] = other > 0 ? table[r, way, size] / other : 0
        }
        return median(values, rounds)
    }
    END {
        print "batch,way,wall ns,cpu ns,wall ratio,cpu ratio,allocations"
        n = split("x/net,mmsg RecvMsg,mmsg RecvBatch,mmsg Offload", ways, ",")
        for (size = 1; size <= 512; size *= 2) for (w = 1; w <= n; w++)
            printf "%d,%s,%.1f,%.1f,%.3f,%.3f,%s\n", size, ways[w], of(wall, ways[w], size, 0),
                of(cpu, ways[w], size, 0), of(wall, ways[w], size, 1), of(cpu, ways[w], size, 1),
                allocations[ways[w], size]
    }' "$scratch/turns" >"$tables/xnet.csv"

awk -F, '{ printf "%6s  %-14s %10s %10s %11s %10s %12s\n", $1, $2, $3, $4, $5, $6, $7 }' "$tables/xnet.csv"

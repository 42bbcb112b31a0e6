#!/usr/bin/env bash
# benches/compare/report.sh [--quick | --test]
#
# Measures what a user could pick, and writes docs/benchmarks.md and its charts: `compare run`, the same work by golang.org/x/net,
# and `compare report`. It takes about ten minutes. Run nothing else meanwhile. Root gets larger receive buffers and network
# namespaces. A missing program skips its part and prints "skipped: ".
#
# --quick: rough figures in two minutes, in target/report.
# --test: everything once, no figures.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --quiet --locked --release -p compare
compare=$target/release/compare

# measure TO [--quick]
measure() {
    rm -f "$target"/throughput/*.csv
    "$compare" run ${2:+"$2"}
    benches/compare/xnet/compare.sh
    "$compare" report --from "$target/throughput" --to "$1"
}

case ${1:-} in
--test)
    "$compare" run --test
    "$compare" ratios --test
    benches/compare/xnet/compare.sh --test
    rm -rf "$target/report-test"
    "$compare" report --from "$target/throughput-test" --to "$target/report-test"
    for chart in ns-per-datagram speed-up; do
        grep -q '</svg>' "$target/report-test/$chart.svg"
    done
    ;;
--quick)
    measure "$target/report" --quick
    ;;
'')
    measure docs
    ;;
*)
    echo "usage: benches/compare/report.sh [--quick | --test]" >&2
    exit 2
    ;;
esac

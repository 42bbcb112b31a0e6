#!/usr/bin/env bash
# benches/compare/report.sh [--quick | --test]
#
# Measures all that docs/benchmarks.md holds, and writes it and its charts: `compare run`, the same
# work by golang.org/x/net, and `compare report`. It takes about seven minutes. Let nothing else run
# meanwhile; as root it has larger receive buffers and network namespaces. What cannot be measured
# for want of a program prints a line with "skipped: ".
#
# With --quick: a look in about two minutes, in target/report. With --test: everything once, no
# figures.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --quiet --locked --release -p compare
compare=$target/release/compare

case ${1:-} in
--test)
    "$compare" run --test
    "$compare" ratios --test
    benches/compare/xnet/compare.sh --test
    "$compare" report --from "$target/throughput-test" --to "$target/report-test"
    for chart in ns-per-datagram speed-up; do
        grep -q '</svg>' "$target/report-test/$chart.svg"
    done
    ;;
--quick)
    rm -f "$target"/throughput/*.csv
    "$compare" run --quick
    benches/compare/xnet/compare.sh
    "$compare" report --from "$target/throughput" --to "$target/report"
    ;;
'')
    rm -f "$target"/throughput/*.csv
    "$compare" run
    benches/compare/xnet/compare.sh
    "$compare" report --from "$target/throughput"
    ;;
*)
    echo "usage: benches/compare/report.sh [--quick | --test]" >&2
    exit 2
    ;;
esac

#!/usr/bin/env bash
# benches/report.sh [--quick | --test]
#
# Measures all that docs/benchmarks.md tells, and writes it and its charts: `--bench throughput`, the
# instructions of each way, the same work by golang.org/x/net, and `--bench report`. It takes about
# seven minutes. Let nothing else run meanwhile; as root it has larger receive buffers and network
# namespaces. What cannot be measured for want of a program prints a line with "skipped: ".
#
# With --quick: a look in about two minutes, in target/report. With --test: everything for once, no
# figures.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
report() { cargo bench --quiet --bench report -- --write "$@"; }

case ${1:-} in
--test)
    cargo bench --quiet --bench throughput -- --test
    # Where the instructions are is for nobody to read here; that they cannot be counted is.
    benches/instructions_peers.sh 'mmsg owned' told >"$target/instructions-test"
    grep '^skipped: ' "$target/instructions-test" || true
    benches/xnet/compare.sh --test
    report --from "$target/throughput-test" --to "$target/report-test"
    for chart in ns-per-datagram speed-up; do
        grep -q '</svg>' "$target/report-test/$chart.svg"
    done
    ;;
--quick)
    rm -f "$target"/throughput/*.csv
    cargo bench --bench throughput -- --quick
    benches/instructions_peers.sh
    benches/xnet/compare.sh
    report --to "$target/report"
    ;;
'')
    rm -f "$target"/throughput/*.csv
    # criterion's times are to look at; the page has none of them.
    cargo bench --bench throughput -- --no-criterion
    benches/instructions_peers.sh
    benches/xnet/compare.sh
    report
    ;;
*)
    echo "usage: benches/report.sh [--quick | --test]" >&2
    exit 2
    ;;
esac

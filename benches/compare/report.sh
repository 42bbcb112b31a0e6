#!/usr/bin/env bash
# benches/compare/report.sh [--record | --quick | --test]
#
# Measures all that docs/benchmarks.md holds, and writes it and its charts: `compare run`, the same
# work by golang.org/x/net, and `compare report`. It takes about seven minutes. Let nothing else run
# meanwhile; as root it has larger receive buffers and network namespaces. What cannot be measured
# for want of a program prints a line with "skipped: ".
#
# With --record: the same, and docs/record/VERSION/ with the page, its charts and the tables that they are
# made of (docs/record/README.md). It needs a work tree without changes, so that the commit noted says what was measured.
# With --quick: a look in about two minutes, in target/report. With --test: everything once, no figures.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

changes() { git status --porcelain --untracked-files=no; }
if [ "${1:-}" = --record ] && [ -n "$(changes)" ]; then
    echo "report.sh: commit these first, a record is of a commit:" >&2
    changes >&2
    exit 2
fi

target=$(cargo metadata --no-deps --format-version 1 |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
cargo build --quiet --locked --release -p compare
compare=$target/release/compare

measure() {
    rm -f "$target"/throughput/*.csv
    "$compare" run
    benches/compare/xnet/compare.sh
    "$compare" report --from "$target/throughput"
}

# The tables go in one compressed file, whose bytes depend on what is in it alone.
record() {
    local version folder again
    version=$(cargo metadata --no-deps --format-version 1 | grep -o '"name":"mmsg","version":"[^"]*"' | cut -d'"' -f8)
    folder=docs/record/$version
    again=$(mktemp -d)
    mkdir -p "$folder"
    cp docs/benchmarks.md docs/ns-per-datagram.svg docs/speed-up.svg "$folder/"
    (cd "$target/throughput" && tar --create --sort=name --mtime=@0 --owner=0 --group=0 --mode=644 ./*.csv) |
        xz -9 >"$folder/tables.tar.xz"
    # What anyone can repeat: the page out of the tables.
    mkdir "$again/tables" && tar -xJf "$folder/tables.tar.xz" -C "$again/tables"
    "$compare" report --from "$again/tables" --to "$again/page"
    for made in "$again"/page/*; do cmp "$made" "$folder/$(basename "$made")"; done
    rm -r "$again"
    echo "$folder has the record of $version"
}

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
    measure
    ;;
--record)
    measure
    record
    ;;
*)
    echo "usage: benches/compare/report.sh [--record | --quick | --test]" >&2
    exit 2
    ;;
esac

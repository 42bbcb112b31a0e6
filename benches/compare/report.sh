#!/usr/bin/env bash
# benches/compare/report.sh [--record | --quick | --test]
#
# Measures what a user could pick, and writes docs/benchmarks.md, its charts, and docs/record/VERSION/benchmarks.md with all tables:
# `compare run`, the same work by golang.org/x/net, and `compare report`. It takes about ten minutes. Run nothing else
# meanwhile. Root gets larger receive buffers and network namespaces. A missing program skips its part and prints "skipped: ".
#
# --record: also docs/record/VERSION/tables.tar.xz, from which the pages can be made again (docs/record/README.md). It needs a
#   work tree without changes, so that the commit on the page is what was measured.
# --quick: rough figures in two minutes, in target/report.
# --test: everything once, no figures.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

changes() { git status --porcelain --untracked-files=no; }
if [ "${1:-}" = --record ] && [ -n "$(changes)" ]; then
    echo "report.sh: commit these changes first, a record is of a commit:" >&2
    changes >&2
    exit 2
fi

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

# The archive's bytes depend on the tables alone.
record() {
    local version tables again
    version=$(cargo metadata --no-deps --format-version 1 | grep -o '"name":"mmsg","version":"[^"]*"' | cut -d'"' -f8)
    tables=docs/record/$version/tables.tar.xz
    again=$(mktemp -d)
    (cd "$target/throughput" && tar --create --sort=name --mtime=@0 --owner=0 --group=0 --mode=644 ./*.csv) |
        xz -9 >"$tables"
    # What a reader can repeat: the same pages and charts from the archive.
    mkdir "$again/tables" && tar -xJf "$tables" -C "$again/tables"
    "$compare" report --from "$again/tables" --to "$again/docs"
    (cd "$again/docs" && find . -type f) | while read -r made; do cmp "$again/docs/$made" "docs/$made"; done
    rm -r "$again"
    echo "$tables has the tables of $version"
}

case ${1:-} in
--test)
    "$compare" run --test
    "$compare" ratios --test
    benches/compare/xnet/compare.sh --test
    rm -rf "$target/report-test"
    "$compare" report --from "$target/throughput-test" --to "$target/report-test"
    for chart in ns-per-datagram speed-up echo; do
        grep -q '</svg>' "$target/report-test/$chart.svg"
    done
    # The short page links to the other.
    (cd "$target/report-test" && ls "$(grep -o 'record/[^)]*' benchmarks.md)")
    ;;
--quick)
    measure "$target/report" --quick
    ;;
'')
    measure docs
    ;;
--record)
    measure docs
    record
    ;;
*)
    echo "usage: benches/compare/report.sh [--record | --quick | --test]" >&2
    exit 2
    ;;
esac

#!/usr/bin/env bash
# benches/instructions_peers.sh [WAY TOLD]
#
# Counts the user-space instructions that a datagram costs, sent and received, by each way that
# `cargo bench --bench throughput` compares, by callgrind: batches of 64 on loopback, 15 bytes of
# payload, memory warm, IPv4; without metadata, and with ECN bits and destination. What a program
# does at the least is part of it: it reads the source, the length and what was told. The kernel's
# own instructions are not counted (a system call is one), and counts do not depend on what else the
# machine does.
#
# Prints a table and leaves it in target/throughput/instructions.csv. With WAY (as in the table) and
# TOLD (none or told): where the instructions are, by source file and function.
#
# Needs valgrind.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v valgrind >/dev/null || { echo "skipped: instructions of each way: no valgrind here"; exit 0; }
program=$(cargo bench --quiet --bench throughput --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*throughput-[^"]*\)".*/\1/p' | tail -n 1)
[ -x "$program" ] || { echo "instructions_peers.sh: cargo built no benchmark" >&2; exit 2; }
tables=$(dirname "$program")/../../throughput
mkdir -p "$tables"
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

# Runs the program, with only what `measured` calls counted, and prints the number of datagrams.
run() { # WAY TOLD
    valgrind --quiet --tool=callgrind --toggle-collect='*measured*' \
        --callgrind-out-file="$counts" "$program" --instructions "$1" "$2"
}

if [ $# -eq 2 ]; then
    run "$1" "$2"
    callgrind_annotate --threshold=98 "$counts"
    exit
fi

ways=(std nix quinn-udp raw 'mmsg borrowed' 'mmsg owned' 'quinn-udp GSO' 'raw GSO' 'mmsg Offload')
echo 'way,metadata,instructions' >"$tables/instructions.csv"
printf '%-16s %12s %20s\n' 'a datagram' 'no metadata' 'ECN and destination'
for way in "${ways[@]}"; do
    line=()
    for told in none told; do
        datagrams=$(run "$way" "$told")
        if [ "$datagrams" = 0 ]; then
            line+=(-)
            continue
        fi
        total=$(sed -n 's/^totals: *//p' "$counts")
        line+=("$(awk "BEGIN { printf \"%.1f\", $total / $datagrams }")")
        echo "$way,$told,${line[-1]}" >>"$tables/instructions.csv"
    done
    printf '%-16s %12s %20s\n' "$way" "${line[@]}"
done

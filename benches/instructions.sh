#!/usr/bin/env bash
# benches/instructions.sh [KIND FAMILY]
#
# Counts the user-space instructions that a call costs for each datagram, by callgrind: at batch 64,
# 15 bytes of payload, memory warm, IPv4 and IPv6. Counts do not depend on what else the machine does.
#   send_batch   64 messages that lie ready
#   send_iter    ... that an iterator makes as it goes, which is counted, too
#   push         into a SendQueue
#   flush        out of it
#   trains       messages that lie ready, as one train by Offload: one payload for all of them
#   trains_slab  ... payloads side by side in memory
#   recv_batch   into 64 RecvMsg, and then every address and where its bytes are
#   told_batch   ... where congestion bits, destination and trains were asked for: decoding them
#   meta_batch   ... and reading the first two of each
#   recv_into    into a RecvBatch, and the same as for recv_batch
#   told_into    and meta_into: in the same way
#   trains_into  into a RecvBatch, what came as one train, and the same
#   echo         recv_into, and send_iter of what came: both ways
# Those with a promise beside them keep it, or the status is 1; +60 stands for what the kind before
# took and 60 more. The kernel's own instructions are not counted: a system call is one.
#
# With KIND and FAMILY (v4 or v6): where they are, by source file and function.
#
# Needs valgrind.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is promised for each kind; - for nothing.
promises='send_batch 40  send_iter -  push -  flush 40  trains -  trains_slab -
    recv_batch -  told_batch +60  meta_batch -  recv_into 40  told_into +60  meta_into -  trains_into -
    echo -'

program=$(cargo bench --quiet --bench instructions --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*instructions-[^"]*\)".*/\1/p' | tail -n 1)
[ -x "$program" ] || { echo "instructions.sh: cargo built no benchmark" >&2; exit 2; }
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

# Runs the program, with only what `measured` calls counted, and prints the number of datagrams.
run() { # KIND FAMILY
    valgrind --quiet --tool=callgrind --toggle-collect='*measured*' \
        --callgrind-out-file="$counts" "$program" "$1" "$2"
}

if [ $# -eq 2 ]; then
    run "$1" "$2"
    exec callgrind_annotate --threshold=98 "$counts"
fi

status=0
printf '%-12s %8s %8s %9s\n' 'a datagram' IPv4 IPv6 promised
# shellcheck disable=SC2086 # split on purpose
set -- $promises
declare -A before=([v4]=0 [v6]=0)
while [ $# -gt 0 ]; do
    kind=$1 promise=$2
    shift 2
    line=()
    for family in v4 v6; do
        datagrams=$(run "$kind" "$family")
        total=$(sed -n 's/^totals: *//p' "$counts")
        line+=("$(awk "BEGIN { printf \"%.1f\", $total / $datagrams }")")
        case $promise in
            -) ;;
            +*) [ "$total" -le $((before[$family] + promise * datagrams)) ] || status=1 ;;
            *) [ "$total" -le $((promise * datagrams)) ] || status=1 ;;
        esac
        before[$family]=$total
    done
    printf '%-12s %8s %8s %9s\n' "$kind" "${line[@]}" "$promise"
done
[ "$status" = 0 ] || echo 'over what is promised' >&2
exit "$status"

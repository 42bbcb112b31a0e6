#!/usr/bin/env bash
# programs/quic/compare.sh [ROUNDS [MIB [CLIENT]]]
#
# Measures the server of this example on this crate's sockets (mmsg) against the same server on
# quinn's own (quinn): bytes a second, and nanoseconds of the server's CPU time a kilobyte, with 1
# connection and with 50, on loopback. CLIENT says whose sockets the client is on: quinn's own both
# times (quinn), or the server's (same).
#
# Both servers run all the time, and the client turns to one and to the other, ROUNDS times (20), in
# an order that changes; each time it gets MIB mebibytes (256) in all. The figures are medians, and
# the medians of the ratios within each round, which leave out what changed from round to round.
# Close other programs first: figures of a loaded machine are worth nothing.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-20} mib=${2:-256} client=${3:-quinn}
cargo build --release --quiet -p quic
quic=${CARGO_TARGET_DIR:-target}/release/quic

folder=$(mktemp -d)
declare -A pid addr
finish() {
    for kind in "${!pid[@]}"; do kill "${pid[$kind]}" && wait "${pid[$kind]}" || true; done
    rm -rf "$folder"
}
trap finish EXIT

for kind in mmsg quinn; do
    mkfifo "$folder/$kind.said"
    "$quic" serve 127.0.0.1:0 --root "$folder" --cert "$folder/$kind.pem" --socket $kind \
        >"$folder/$kind.said" &
    pid[$kind]=$!
    # Held open, so that the server can say more at its end.
    exec {said}<"$folder/$kind.said"
    read -r _ _ "addr[$kind]" <&"$said"
done

# Nanoseconds that the threads of a process have run for.
cpu() { cat /proc/"$1"/task/*/schedstat | awk '{sum += $1} END {printf "%.0f\n", sum}'; }

# run KIND CONNECTIONS FILE TIMES: prints bytes a second and nanoseconds a kilobyte.
run() {
    local before after said client=$client
    [ "$client" != same ] || client=$1
    before=$(cpu "${pid[$1]}")
    said=$("$quic" load "${addr[$1]}" "$3" --cert "$folder/$1.pem" --socket "$client" \
        --connections "$2" --times "$4")
    after=$(cpu "${pid[$1]}")
    # "connections 1, whole 1, bytes N in S s, R bytes/s"
    awk -v ns=$((after - before)) -v all="$2" '
        $4 + 0 != all {exit 1} {printf "%s %.3f\n", $(NF - 1), ns / ($6 / 1000)}' <<<"$said"
}

median() { sort -n | awk '{n[NR] = $1} END {print (n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2}'; }

echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "connections  rounds      MB/s mmsg  MB/s quinn  ratio   ns/kB mmsg  ns/kB quinn  ratio"
for connections in 1 50; do
    head -c $((mib * 1048576 / connections)) /dev/urandom >"$folder/file"
    for kind in mmsg quinn; do run $kind $connections file 1 >"$folder/warm-up"; done
    : >"$folder/table"
    for ((round = 0; round < rounds; round++)); do
        kinds=(mmsg quinn)
        [ $((round % 2)) = 0 ] || kinds=(quinn mmsg)
        for kind in "${kinds[@]}"; do run $kind $connections file 1 >"$folder/$kind.row"; done
        paste -d' ' "$folder/mmsg.row" "$folder/quinn.row" >>"$folder/table"
    done
    column() { awk "{print $1}" "$folder/table" | median; }
    printf '%11d  %6d  %12.0f  %10.0f  %5.3f  %11.1f  %11.1f  %5.3f\n' $connections "$rounds" \
        "$(column '$1 / 1e6')" "$(column '$3 / 1e6')" "$(column '$1 / $3')" \
        "$(column '$2')" "$(column '$4')" "$(column '$2 / $4')"
done

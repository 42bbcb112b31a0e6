#!/usr/bin/env bash
# programs/quic/compare.sh [ROUNDS [MIB [CLIENT [ROWS]]]]
#
# Compares this program's server on this crate's sockets (mmsg) with the same server on quinn's own (quinn):
#   bulk: bytes per second, and nanoseconds of the server's CPU time per kilobyte, on loopback and over a veth;
#   echo: how long a request for one byte takes while other connections download, and the speed of these downloads.
#     The 10 and 100 Mbit/s links are a veth with tbf and a queue of 256 kB. Without downloads: the server's CPU
#     time per echo.
# CLIENT says whose sockets the client uses: quinn's own both times (quinn), or the server's (same). ROWS is a pattern
# that selects rows, for example 'echo.*Mbit'.
#
# Both servers run all the time in a network namespace that ends with the script. The client uses one and then the
# other, in changing order, for ROUNDS rounds (10); a bulk row moves MIB mebibytes (256) in all. Prints medians with
# their ranges. A ratio compares two runs of one round, so slow changes of the machine cancel out. Needs an otherwise
# idle machine.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
quic=${CARGO_TARGET_DIR:-target}/release/quic
if [ "${1:-}" != inside ]; then
    [ -n "${QUIC:-}" ] || cargo build --release --quiet -p quic
    if [ $EUID = 0 ]; then renice -n -10 $$ >/dev/null; as=(); else as=(--map-root-user); fi
    exec unshare "${as[@]}" --net "programs/quic/compare.sh" inside "$@"
fi
rounds=${2:-10} mib=${3:-256} client=${4:-quinn} rows=${5:-.} quic=${QUIC:-$quic}

folder=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" && wait "$pid" || true; done
    rm -rf "$folder"
}
trap finish EXIT

# The near end of a link is in this namespace, the far end in another.
unshare --net sleep infinity &
far=$! pids+=($!)
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
ip link set lo up
ip link add near type veth peer name far netns $far
ip addr add 10.79.0.1/24 dev near
ip link set near up
nsenter -t $far -n ip addr add 10.79.0.2/24 dev far
nsenter -t $far -n ip link set far up

declare -A pid port=([mmsg]=4433 [quinn]=4434)
for kind in mmsg quinn; do
    mkfifo "$folder/$kind.said"
    "$quic" serve 0.0.0.0:${port[$kind]} --socket $kind --connections 2000 >"$folder/$kind.said" &
    pid[$kind]=$! pids+=($!)
    # Kept open, so that the server can still print at its end.
    exec {said}<"$folder/$kind.said"
    read -r _ <&"$said"
done

# CPU time of all threads of a process, in nanoseconds.
cpu() { cat /proc/"$1"/task/*/schedstat | awk '{sum += $1} END {printf "%.0f\n", sum}'; }

# run KIND PLACE COMMAND ARGS: prints the client's figures and the server's CPU time in nanoseconds.
run() {
    local before after said kind=$1 of=$client at=(127.0.0.1)
    [ "$of" != same ] || of=$1
    [ "$2" = loopback ] || at=(10.79.0.1 nsenter -t $far -n)
    before=$(cpu "${pid[$kind]}")
    said=$("${at[@]:1}" "$quic" "$3" "${at[0]}:${port[$kind]}" --socket "$of" "${@:4}" | head -1)
    after=$(cpu "${pid[$kind]}")
    echo "$said $((after - before))"
}
# "connections 1, whole 1, bytes N in S s, R bytes/s; CPU S s" and "echoes N, us p50 N p90 N p99 N, R bytes/s; CPU S s"
bulk() {
    run "$1" "$2" load --connections "$3" --bytes $((mib * 1048576 / $3)) |
        awk '{printf "%.1f %.1f\n", $10 / 1e6, $NF / $6 * 1000}'
}
echoes() {
    run "$1" "$2" echo --connections "$3" --seconds 5 |
        awk -v idle="$3" '{print $5, $7, $9 + 0, idle ? $10 / 1e6 : $NF / $2 / 1000}'
}

# row NAME METRICS MEASURE ARGS: measures both servers in turn and prints a line for each metric.
row() {
    local name=$1 metrics=($2) round i kind kinds
    [[ $name =~ $rows ]] || return 0
    for kind in mmsg quinn; do "$3" $kind "${@:4}" >"$folder/warm-up"; done
    : >"$folder/table"
    for ((round = 0; round < rounds; round++)); do
        kinds=(mmsg quinn)
        [ $((round % 2)) = 0 ] || kinds=(quinn mmsg)
        for kind in "${kinds[@]}"; do "$3" $kind "${@:4}" >"$folder/$kind.row"; done
        paste -d' ' "$folder/mmsg.row" "$folder/quinn.row" >>"$folder/table"
    done
    for i in "${!metrics[@]}"; do
        column() {
            awk -v a=$((i + 1)) -v b=$((i + 1 + ${#metrics[@]})) "{print $1}" "$folder/table" | sort -g | awk '
                {n[NR] = $1}
                END {printf "%.4g (%.4g to %.4g)", (n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2, n[1], n[NR]}'
        }
        printf '%-26s  %-7s  %-28s  %-28s  %s\n' "$name" "${metrics[i]}" "$(column '$a')" "$(column '$b')" \
            "$(column '$a / $b')"
    done
}

echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg), $rounds rounds"
printf '%-26s  %-7s  %-28s  %-28s  %s\n' row of mmsg quinn ratio
for place in loopback veth; do
    for connections in 1 50; do
        row "bulk $place, $connections" "MB/s ns/kB" bulk $place $connections
    done
done
row "echo loopback, idle" "p50 p90 p99 us/echo" echoes loopback 0
row "echo loopback, 100" "p50 p90 p99 MB/s" echoes loopback 100
for rate in 10 100; do
    tc qdisc replace dev near root tbf rate ${rate}mbit burst 32kb limit 256kb
    for connections in 1 8; do
        row "echo $rate Mbit/s, $connections" "p50 p90 p99 MB/s" echoes veth $connections
    done
done

#!/usr/bin/env bash
# programs/dns/compare.sh [ROUNDS [SECONDS [CLIENTS]]]
#
# Compares the modes of the DNS server by answers per second of the server's CPU time. In each of ROUNDS rounds
# (default 5), dnsperf loads each mode in turn for SECONDS (default 5) from CLIENTS sockets (default 10). Then checks
# at 10,000 queries a second, far below saturation, that no query is lost. Prints medians and the ratio to `--mode
# tokio`.
#
# Needs dnsperf and an otherwise idle machine.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
rounds=${1:-5} seconds=${2:-5} clients=${3:-10}
modes=(tokio batch offload)
command -v dnsperf >/dev/null || { echo "dnsperf is not installed (Debian: apt-get install dnsperf)"; exit 2; }
cargo build --locked --release -p dns || exit 2
server=${CARGO_TARGET_DIR:-target}/release/dns
ticks=$(getconf CLK_TCK)
work=$(mktemp -d) || exit 2
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$work"' EXIT

# Existing and missing names, aliases, a wildcard and a referral.
for name in www ftp files mail ns1 big a.any b.any missing deep.empty empty x.child _sip._udp; do
    case $name in
        big) echo "$name.example.test TXT" ;;
        _sip*) echo "$name.example.test SRV" ;;
        www) printf '%s.example.test %s\n' $name A $name AAAA $name A $name AAAA $name A ;;
        *) echo "$name.example.test A" ;;
    esac
done >"$work/queries"

# run MODE SECONDS DNSPERF-ARGUMENTS...: writes dnsperf's report to $work/report, and sets cpu to the ticks that the
# server used.
run() {
    local mode=$1 time=$2 port before after
    shift 2
    : >"$work/server" # otherwise the port of the previous run may be read
    "$server" --listen 127.0.0.1:0 --zone programs/dns/example.zone --mode "$mode" --rate-limit 0 >"$work/server" &
    pid=$!
    until port=$(sed -n 's/^listening on .*://p' "$work/server") && [ -n "$port" ]; do
        kill -0 $pid || exit 1
        sleep 0.05
    done
    before=$(used)
    dnsperf -s 127.0.0.1 -p "$port" -d "$work/queries" -l "$time" "$@" >"$work/report" 2>&1 || { cat "$work/report"; exit 1; }
    after=$(used)
    cpu=$((after - before))
    kill $pid && wait $pid
    pid=
}
# After the program's name, fields 12 and 13 are user and system time.
used() { sed 's/.*) //' /proc/$pid/stat | awk '{print $12 + $13}'; }
said() { awk -v what="Queries $1:" 'index($0, what) {print $3}' "$work/report"; }
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

for ((round = 1; round <= rounds; round++)); do
    for mode in "${modes[@]}"; do
        run "$mode" "$seconds" -c "$clients" -T 1 -q 400
        completed=$(said completed)
        awk -v n="$completed" -v cpu="$cpu" -v hz="$ticks" -v s="$seconds" \
            'BEGIN {printf "%.0f %.0f\n", n * hz / cpu, n / s}' >>"$work/$mode"
        echo "round $round, $mode: $completed answers, $cpu ticks, $(said lost) lost" >&2
    done
done
printf '%-8s %22s %12s %8s\n' mode 'queries/CPU second' queries/s ratio
base=$(cut -d' ' -f1 "$work/tokio" | median)
for mode in "${modes[@]}"; do
    each=$(cut -d' ' -f1 "$work/$mode" | median)
    printf '%-8s %22d %12d %8s\n' "$mode" "$each" "$(cut -d' ' -f2 "$work/$mode" | median)" \
        "$(awk -v a="$each" -v b="$base" 'BEGIN {printf "%.2f", a / b}')"
done

echo
status=0
for mode in "${modes[@]}"; do
    run "$mode" "$seconds" -c "$clients" -T 1 -q 400 -Q 10000
    echo "at 10,000 queries/s, $mode: $(said completed) answers, $(said lost) lost"
    [ "$(said lost)" = 0 ] || status=1
done
exit $status

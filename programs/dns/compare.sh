#!/usr/bin/env bash
# programs/dns/compare.sh [ROUNDS [SECONDS [SERVER...]]]
#
# Compares the modes of the DNS server, NSD and Knot by answers per second of the server's CPU time, with 400, 10 and 1
# queries in flight. In each of ROUNDS rounds (default 5), dnsperf loads each SERVER (default: tokio batch offload nsd
# knot, as far as they are installed) in turn for SECONDS (default 5). Each has one worker, the same zone and no rate
# limit. Prints medians, the ratio to the first server's, and the queries lost in all rounds. Then checks at 10,000
# queries a second, far below saturation, that no query is lost. IN_FLIGHT="10 1" chooses the queries in flight.
#
# Needs dnsperf (Debian: dnsperf; nsd, knot) and an otherwise idle machine.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
rounds=${1:-5} seconds=${2:-5}
servers=("${@:3}")
read -ra in_flight <<<"${IN_FLIGHT:-400 10 1}"
command -v dnsperf >/dev/null || { echo "dnsperf is not installed (Debian: apt-get install dnsperf)"; exit 2; }
if [ ${#servers[@]} = 0 ]; then
    servers=(tokio batch offload)
    command -v nsd >/dev/null && servers+=(nsd)
    command -v knotd >/dev/null && servers+=(knot)
fi
# DNS_PROGRAM names a program that is built already.
program=${DNS_PROGRAM:-${CARGO_TARGET_DIR:-target}/release/dns}
[ -n "${DNS_PROGRAM:-}" ] || cargo build --locked --release -p dns || exit 2
work=$(mktemp -d) || exit 2
pid=
trap '[ -z "$pid" ] || { kill "$pid"; wait "$pid"; }; rm -rf "$work"' EXIT
# For NSD and Knot, which cannot be asked which port they chose.
port=5390
cp programs/dns/example.zone "$work/example.test.zone"

# Existing and missing names, aliases, a wildcard and a referral.
for name in www ftp files mail ns1 big a.any b.any missing deep.empty empty x.child _sip._udp; do
    case $name in
        big) echo "$name.example.test TXT" ;;
        _sip*) echo "$name.example.test SRV" ;;
        www) printf '%s.example.test %s\n' $name A $name AAAA $name A $name AAAA $name A ;;
        *) echo "$name.example.test A" ;;
    esac
done >"$work/queries"

cat >"$work/nsd.conf" <<END
server:
 ip-address: 127.0.0.1@$port
 server-count: 1
 rrl-ratelimit: 0
 zonesdir: "$work"
 username: ""
 pidfile: ""
 database: ""
 zonelistfile: "$work/zone.list"
 xfrdfile: ""
 xfrdir: "$work"
remote-control:
 control-enable: no
zone:
 name: example.test
 zonefile: example.test.zone
END
cat >"$work/knot.conf" <<END
server:
  listen: 127.0.0.1@$port
  rundir: $work
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
database:
  storage: $work
zone:
  - domain: example.test
    storage: $work
    file: example.test.zone
    journal-content: none
END

# start SERVER: starts it, and sets pid.
start() {
    case $1 in
        nsd) nsd -d -c "$work/nsd.conf" >"$work/server" 2>&1 & ;;
        knot) knotd -c "$work/knot.conf" >"$work/server" 2>&1 & ;;
        *) "$program" --listen 127.0.0.1:$port --zone "$work/example.test.zone" --mode "$1" --rate-limit 0 >"$work/server" & ;;
    esac
    pid=$!
    # Until it answers.
    until dnsperf -s 127.0.0.1 -p $port -d "$work/queries" -n 1 -t 0.2 2>/dev/null | grep -q 'completed: *17 '; do
        kill -0 $pid || { cat "$work/server"; exit 1; }
        sleep 0.1
    done
}
stop() {
    kill $pid && wait $pid
    pid=
}
# CPU time of the server and its children, in nanoseconds: ticks are too long for few queries.
used() {
    local children
    children=$(pgrep -P "$pid")
    for one in $pid $children $(for child in $children; do pgrep -P "$child"; done); do
        cat "/proc/$one/task"/*/schedstat
    done | awk '{sum += $1} END {printf "%.0f\n", sum}'
}
# load QUERIES-IN-FLIGHT DNSPERF-ARGUMENTS...: writes dnsperf's report to $work/report, and sets cpu to the nanoseconds used.
load() {
    local flight=$1 before
    shift
    before=$(used)
    dnsperf -s 127.0.0.1 -p $port -d "$work/queries" -l "$seconds" -c $((flight < 10 ? flight : 10)) -T 1 -q "$flight" "$@" \
        >"$work/report" 2>&1 || { cat "$work/report"; exit 1; }
    cpu=$(($(used) - before))
}
said() { awk -v what="Queries $1:" 'index($0, what) {print $3}' "$work/report"; }
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

for ((round = 1; round <= rounds; round++)); do
    for server in "${servers[@]}"; do
        start "$server"
        for flight in "${in_flight[@]}"; do
            load "$flight"
            echo "$(said completed) $cpu $(said lost)" | awk -v s="$seconds" \
                '{printf "%.0f %.0f %d\n", $1 * 1e9 / $2, $1 / s, $3}' >>"$work/$server.$flight"
            echo "round $round, $server, $flight in flight: $(said completed) answers, $((cpu / 1000000)) ms, $(said lost) lost" >&2
        done
        stop
    done
done
for flight in "${in_flight[@]}"; do
    printf '%-8s %22s %12s %8s %8s\n' "$flight" 'answers/CPU second' answers/s ratio lost
    base=$(cut -d' ' -f1 "$work/${servers[0]}.$flight" | median)
    for server in "${servers[@]}"; do
        each=$(cut -d' ' -f1 "$work/$server.$flight" | median)
        printf '%-8s %22d %12d %8s %8d\n' "$server" "$each" "$(cut -d' ' -f2 "$work/$server.$flight" | median)" \
            "$(awk -v a="$each" -v b="$base" 'BEGIN {printf "%.2f", a / b}')" \
            "$(awk '{lost += $3} END {print lost}' "$work/$server.$flight")"
    done
    echo
done

status=0
for server in "${servers[@]}"; do
    start "$server"
    load 400 -Q 10000
    stop
    echo "at 10,000 queries/s, $server: $(said completed) answers, $(said lost) lost"
    [ "$(said lost)" = 0 ] || status=1
done
exit $status

#!/usr/bin/env bash
# programs/wireguard/compare.sh [ROUNDS [SECONDS [ROWS]]]
#
# Measures WireGuard tunnels between two network namespaces (veth, MTU 1500). Sockets are this crate's (mmsg) or gotatun's
# own (stock); the TUN device uses offload (offload) or not (plain). Rows:
#   tcp, udp: megabytes per second that iperf3 receives; CPU seconds of both nodes per gigabyte; retransmitted TCP
#     segments, or per cent of UDP datagrams lost at 25 MB/s. "back" is from the far end to the near one;
#   ping: round trips in ms, through an idle tunnel, and beside a TCP upload that fills a link of 100 Mbit/s (tbf, 256 kB).
#     tbf limits the router's device, or the node's own ("own"), where it passes on a GSO batch of up to 32 kB as one packet;
#   tcp, 1 % loss: the router drops 1 % of the datagrams.
# The router gets single datagrams, as from a real network.
# After the idle ping, a line for each tunnel counts the packets read from its TUN devices, written to them, dropped by a full
# socket, and lost by the nodes. The line also gives each node's memory.
#
# In each of ROUNDS (6), iperf3 loads each tunnel in turn for SECONDS (5); the first tunnel changes with the round. Figures
# are medians with ranges. A ratio compares with "stock plain" in the same round. ROWS is a regular expression that selects
# rows. Needs root, ethtool, iperf3, iproute2, iputils-ping, jq and nftables. Close other programs first.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
wireguard=${CARGO_TARGET_DIR:-target}/release/wireguard
if [ "${1:-}" != inside ]; then
    cargo build --release --quiet -p wireguard
    exec unshare --net "programs/wireguard/compare.sh" inside "$@"
fi
rounds=${2:-6} seconds=${3:-5} rows=${4:-.}

folder=$(mktemp -d)
pids=()
finish() {
    kill "${pids[@]}" || true
    wait || true
    rm -rf "$folder"
}
trap finish EXIT

unshare --net sleep infinity &
far=$! pids+=($!)
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
there=(nsenter -t $far -n)
ip link set lo up
# Without IPv6, the kernel sends no solicitations into the TUN devices: a node has no peer for them.
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
"${there[@]}" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'
ip link add near type veth peer name far netns $far
ip addr add 10.79.0.1/24 dev near
ip link set near up
"${there[@]}" ip addr add 10.79.0.2/24 dev far
"${there[@]}" ip link set far up

# A second path to the far end, through a router.
unshare --net sleep infinity &
mid=$! pids+=($!)
until [ "$(readlink /proc/$mid/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
router=(nsenter -t $mid -n)
ip link add near2 type veth peer name m1 netns $mid
"${there[@]}" ip link add far2 type veth peer name m2 netns $mid
ip addr add 10.79.1.1/24 dev near2
ip link set near2 up
"${there[@]}" ip addr add 10.79.2.2/24 dev far2
"${there[@]}" ip link set far2 up
for hop in 1 2; do
    "${router[@]}" ip addr add 10.79.$hop.9/24 dev m$hop
    "${router[@]}" ip link set m$hop up
done
"${router[@]}" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ip route add 10.79.2.0/24 via 10.79.1.9
"${there[@]}" ip route add 10.79.1.0/24 via 10.79.2.9
ethtool -K near2 tx-udp-segmentation off
"${there[@]}" ethtool -K far2 tx-udp-segmentation off

# 32 bytes of 1, and of 2: no secrets.
near_key=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE= near_public=pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=
far_key=AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI= far_public=zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=

# node END NUMBER KIND KEY PEER ENDPOINT: starts a node, and waits until it listens.
declare -A node said idle
node() {
    local end=$1 number=$2 kind=$3 at=() host=1 peer=2 name=$1$2 fd
    [ "$end" = near ] || { at=("${there[@]}") host=2 peer=1; }
    cat >"$folder/$name.conf" <<CONFIG
[Interface]
PrivateKey = $4
Address = 10.80.$number.$host/24
ListenPort = 5182$number
[Peer]
PublicKey = $5
AllowedIPs = 10.80.$number.$peer
Endpoint = $6:5182$number
CONFIG
    rm -f "$folder/$name.said"
    mkfifo "$folder/$name.said"
    "${at[@]}" "$wireguard" "$folder/$name.conf" --device "wg$end$number" --udp "${kind% *}" --tun "${kind#* }" \
        >"$folder/$name.said" &
    node[$name]=$! pids+=($!)
    # Stays open: the node prints its counters when it ends.
    exec {fd}<"$folder/$name.said"
    said[$name]=$fd
    read -r _ <&"$fd"
}
kinds=("mmsg offload" "mmsg plain" "stock offload" "stock plain")
# start NEAR FAR: starts all nodes at these addresses.
start() {
    for i in "${!kinds[@]}"; do
        node near "$i" "${kinds[i]}" $near_key $far_public "$2"
        node far "$i" "${kinds[i]}" $far_key $near_public "$1"
    done
    sleep 1 # The nodes are idle when their memory is read.
    for name in "${!node[@]}"; do idle[$name]=$(memory "$name" RSS); done
}
memory() { awk -v what="Vm$2:" '$1 == what {printf "%.1f", $2 / 1024}' "/proc/${node[$1]}/status"; }
# stop: ends the nodes, and prints their losses and memory.
stop() {
    local i end name what read written full line=
    for i in "${!kinds[@]}"; do
        read=0 written=0 full=0
        for end in near far; do
            name=$end$i
            line="$line$end ${idle[$name]} MiB idle, $(memory "$name" RSS) after the load, $(memory "$name" HWM) at most; "
            # Column 13 counts the datagrams that a socket dropped.
            full=$((full + $(awk -v port="$(printf ':%04X' "5182$i")" '$2 ~ port "$" {sum += $13} END {print sum + 0}' \
                "/proc/${node[$name]}/net/udp" "/proc/${node[$name]}/net/udp6")))
            kill "${node[$name]}"
            wait "${node[$name]}"
            while read -r what; do
                case $what in
                    "tun read: packets "*) what=${what#*packets }; read=$((read + ${what%%,*})) ;;
                    "tun written: packets "*) what=${what#*packets }; written=$((written + ${what%%,*})) ;;
                esac
            done <&"${said[$name]}"
        done
        echo "${kinds[i]}: packets read $read, written $written, no room $full, lost $((read - written - full)); ${line%; }"
        line=
    done
    # Only the namespaces and iperf3's server go on.
    pids=("$far" "$mid" "$server")
}
start 10.79.0.1 10.79.0.2
"${there[@]}" iperf3 -s >"$folder/server" 2>&1 &
server=$! pids+=($!)
until "${there[@]}" ss -ltn | grep -q :5201; do :; done

# cpu NUMBER: CPU seconds of both nodes of a tunnel.
cpu() { cat /proc/"${node[near$1]}"/task/*/schedstat /proc/"${node[far$1]}"/task/*/schedstat | awk '{sum += $1} END {print sum / 1e9}'; }

# iperf NUMBER ARGS: megabytes per second, CPU seconds per gigabyte, and retransmitted segments or per cent of datagrams lost.
iperf() {
    local before after
    before=$(cpu "$1")
    iperf3 -c "10.80.$1.2" -t "$seconds" -J "${@:2}" >"$folder/json"
    after=$(cpu "$1")
    jq -r --argjson cpu "$(awk "BEGIN {print $after - $before}")" '.end | (.sum // .sum_received) as $got |
        (if .sum then $got.bytes * (1 - .sum.lost_percent / 100) else $got.bytes end) as $bytes |
        "\($bytes / $got.seconds / 1e6) \($cpu / $bytes * 1e9) \(.sum.lost_percent // .sum_sent.retransmits // 0)"' \
        "$folder/json"
}
# pings NUMBER: p50, p90 and p99 of 200 round trips, 10 ms apart.
pings() {
    ping -q -i 0.01 -c 20 "10.80.$1.2" >"$folder/ping"
    ping -i 0.01 -c 200 "10.80.$1.2" | sed -n 's/.*time=\([0-9.]*\) ms/\1/p' | sort -g |
        awk '{ms[NR] = $1} END {print ms[int(NR * .5 + .5)], ms[int(NR * .9 + .5)], ms[int(NR * .99 + .5)]}'
}
# beside NUMBER: the same while TCP fills the link.
beside() {
    iperf3 -c "10.80.$1.2" -t 6 -J >"$folder/json" &
    local load=$!
    sleep 1 # Until TCP has filled the queue.
    pings "$1"
    wait "$load"
}

# row NAME METRICS MEASURE ARGS: measures the kinds in turn, and prints a line for each kind and metric.
row() {
    local name=$1 metrics=($2) round i m
    [[ $name =~ $rows ]] || return 0
    for i in "${!kinds[@]}"; do "$3" "$i" "${@:4}" >"$folder/warm-up"; : >"$folder/kind$i"; done
    for ((round = 0; round < rounds; round++)); do
        for ((i = 0; i < ${#kinds[@]}; i++)); do
            m=$(((i + round) % ${#kinds[@]}))
            "$3" "$m" "${@:4}" >>"$folder/kind$m"
        done
    done
    for m in "${!metrics[@]}"; do
        for i in "${!kinds[@]}"; do
            column() {
                paste -d' ' "$folder/kind$i" "$folder/kind3" |
                    awk -v a=$((m + 1)) -v b=$((m + 4)) "{print $1}" | sort -g | awk '
                    {n[NR] = $1}
                    END {printf "%.4g (%.4g to %.4g)", (n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2, n[1], n[NR]}'
            }
            printf '%-19s  %-6s  %-13s  %-30s  %s\n' "$name" "${metrics[m]}" "${kinds[i]}" "$(column '$a')" \
                "$(column '$b == 0 ? ($a == 0) : $a / $b')"
        done
    done
}

echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg), $rounds rounds of $seconds s"
printf '%-19s  %-6s  %-13s  %-30s  %s\n' row of kind median "ratio to stock plain"
for streams in 1 8; do
    row "tcp $streams" "MB/s s/GB again" iperf -P $streams
    row "tcp $streams back" "MB/s s/GB again" iperf -P $streams -R
done
row "udp" "MB/s s/GB lost%" iperf -u -b 200M -l 1300
row "udp back" "MB/s s/GB lost%" iperf -u -b 200M -l 1300 -R
row "ping idle" "p50 p90 p99" pings
stop

start 10.79.1.1 10.79.2.2
limit() { tc qdisc replace dev "$1" root tbf rate 100mbit burst 32kb limit 256kb; }
"${router[@]}" bash -c "$(declare -f limit); limit m2"
row "ping 100 Mbit/s" "p50 p90 p99" beside
"${router[@]}" tc qdisc del dev m2 root
limit near2
row "ping 100 Mbit/s own" "p50 p90 p99" beside
tc qdisc del dev near2 root
"${router[@]}" nft -f - <<NFT
table inet lossy {
    chain forward {
        type filter hook forward priority 0
        udp dport 51820-51829 numgen random mod 100 < 1 drop
    }
}
NFT
row "tcp 1, 1 % loss" "MB/s s/GB again" iperf
row "tcp 8, 1 % loss" "MB/s s/GB again" iperf -P 8

#!/usr/bin/env bash
# programs/dns/zones.sh
#
# Loads each case of tests/zones/cases.txt as a zone into NSD and Knot, transfers the zone from both, and writes what
# they serve beside the case: lines "=> OWNER TTL TYPE DATA" (names in lower case, data in hexadecimal) without the
# zone's first records, or "=> refused". Where the two differ, each line begins with the server's name. The tests
# compare this server with that. Lines "=! ..." say what it does where it differs from both; they are written by hand.
#
# Needs NSD, Knot and dig (Debian: nsd, knot, bind9-dnsutils).
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/tests/zones"
for program in nsd knotd dig; do
    command -v $program >/dev/null || { echo "$program is not installed"; exit 2; }
done
work=$(mktemp -d)
pids=()
trap '[ ${#pids[@]} = 0 ] || kill "${pids[@]}"; wait; rm -rf "$work"' EXIT
cp ./*.zone "$work"

# Each case is a zone of its own, whose name is as long as example.test.
awk -v work="$work" '
    /^### / { n++; file = sprintf("%s/exam%03d.test", work, n); title[n] = $0; next }
    /^=[>!] / { next }
    { text[n] = text[n] $0 "\n" }
    END {
        head = "$TTL 60\n@ IN SOA ns host 1 2 3 4 5\n@ IN NS ns\n"
        for (i = 1; i <= n; i++) {
            name = sprintf("exam%03d", i)
            gsub(/example\.test/, name ".test", text[i])
            printf "%s%s", (text[i] ~ /SOA/ ? "" : head), text[i] >(work "/" name ".test.zone")
            print name ".test" >(work "/names")
        }
    }' cases.txt
{
    printf 'server:\n ip-address: 127.0.0.1\n port: 5391\n zonesdir: "%s"\n username: ""\n pidfile: ""\n' "$work"
    printf ' database: ""\n zonelistfile: "%s/zone.list"\n xfrdfile: ""\n xfrdir: "%s"\n' "$work" "$work"
    printf 'remote-control:\n control-enable: no\n'
    while read -r name; do
        printf 'zone:\n name: %s\n zonefile: %s.zone\n provide-xfr: 127.0.0.1 NOKEY\n' "$name" "$name"
    done <"$work/names"
} >"$work/nsd.conf"
{
    printf 'server:\n  listen: 127.0.0.1@5392\n  rundir: %s\n' "$work"
    printf 'database:\n  storage: %s\nacl:\n  - id: all\n    address: 127.0.0.1\n    action: transfer\n' "$work"
    printf 'template:\n  - id: default\n    storage: %s\n    journal-content: none\n    zonefile-sync: -1\n    acl: all\nzone:\n' "$work"
    while read -r name; do
        printf '  - domain: %s\n    file: %s.zone\n' "$name" "$name"
    done <"$work/names"
} >"$work/knot.conf"
nsd -d -c "$work/nsd.conf" >"$work/nsd.log" 2>&1 &
pids+=($!)
knotd -c "$work/knot.conf" >"$work/knot.log" 2>&1 &
pids+=($!)


# transferred PORT NAME: the zone's records but for the first ones, as of example.test; "refused" if it was not loaded.
transferred() {
    local records soa='example.test. 60 6 026e73076578616d706c65' ns='example.test. 60 2 026e73076578616d706c65'
    [ "$(sed -n 2p "$work/$2.zone")" = '@ IN SOA ns host 1 2 3 4 5' ] || soa=none ns=none
    records=$(dig @127.0.0.1 -p "$1" +tcp +noall +answer +onesoa +unknownformat AXFR "$2" | awk '
        $4 !~ /^TYPE/ { found = found || NF > 1 && !/^;/; next }
        {
            data = ""
            for (i = 7; i <= NF; i++) data = data $i
            print tolower($1), $2, substr($4, 5), (data == "" ? "-" : tolower(data))
            readable = 1
        }
        END { if (found && !readable) print "what dig cannot read" }' | sed -E 's/exam[0-9]{3}\.test/example.test/; s/6578616d3.3.3./6578616d706c65/g' | sort)
    [ -n "$records" ] || records=refused
    grep -v -e "^$soa" -e "^$ns" <<<"$records" || true
}
until dig @127.0.0.1 -p 5391 +tcp +time=1 +tries=1 exam001.test SOA >/dev/null &&
    dig @127.0.0.1 -p 5392 +tcp +time=1 +tries=1 exam001.test SOA >/dev/null; do
    for pid in "${pids[@]}"; do kill -0 "$pid" || { cat "$work/nsd.log" "$work/knot.log"; exit 1; }; done
    sleep 0.2
done
while read -r name; do
    nsd=$(transferred 5391 "$name") knot=$(transferred 5392 "$name")
    {
        if [ "$nsd" = "$knot" ]; then
            sed 's/^/=> /' <<<"$nsd"
        else
            sed 's/^/=> NSD: /' <<<"$nsd"
            sed 's/^/=> Knot: /' <<<"$knot"
        fi
    } | sed 's/: *$/: -/; s/=> $/=> -/' >"$work/$name.served"
done <"$work/names"
# The cases as before, each with what was served at its end.
awk -v work="$work" '
    function served(  line, file) {
        if (!n) return
        file = sprintf("%s/exam%03d.test.served", work, n)
        while ((getline line <file) > 0) print line
    }
    /^### / { served(); n++ }
    /^=> / { next }
    { print }
    END { served() }' cases.txt >"$work/cases"
cp "$work/cases" cases.txt
echo "$(wc -l <"$work/names") zones: $(grep -lv '^=> \(NSD\|Knot\): ' "$work"/*.served | wc -l) alike in NSD and Knot," \
    "of which $(grep -lx '=> refused' "$work"/*.served | wc -l) refused by both"

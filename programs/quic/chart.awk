# awk -f programs/quic/chart.awk TABLE >programs/quic/latency.svg
#
# Draws the "echo" rows of compare.sh's table: p50 (filled) and p99 (outlined) of an echo in milliseconds, this
# crate's sockets above quinn's own, on a logarithmic scale.
BEGIN { FS = "  +"; left = 190; width = 460; decades = 4 }
/^echo/ && ($2 == "p50" || $2 == "p99") {
    if (!($1 in seen)) { seen[$1] = 1; rows[++count] = $1 }
    split($3, mmsg, " "); split($4, quinn, " ")
    time[$1, "mmsg", $2] = mmsg[1] / 1000
    time[$1, "quinn", $2] = quinn[1] / 1000
}
# The scale starts at 0.1 ms.
function x(ms) { return ms <= 0.1 ? 0 : width * log(ms * 10) / log(10) / decades }
function bar(row, kind, y, colour) {
    printf "<rect x='%d' y='%d' width='%.1f' height='11' fill='%s' fill-opacity='.25' stroke='%s'/>\n", left, y, x(time[row, kind, "p99"]), colour, colour
    printf "<rect x='%d' y='%d' width='%.1f' height='11' fill='%s'/>\n", left, y, x(time[row, kind, "p50"]), colour
    printf "<text x='%.1f' y='%d'>%.3g / %.3g</text>\n", left + x(time[row, kind, "p99"]) + 6, y + 10, time[row, kind, "p50"], time[row, kind, "p99"]
}
END {
    height = 60 + 42 * count
    printf "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 780 %d' font-family='sans-serif' font-size='12'>\n", height
    print "<rect width='100%' height='100%' fill='white'/>"
    print "<text x='10' y='20' font-weight='bold'>Echo of one byte beside downloads, ms: p50 (filled) and p99 (outlined), logarithmic</text>"
    print "<rect x='10' y='30' width='11' height='11' fill='#1f77b4'/><text x='26' y='40'>mmsg-quinn</text>"
    print "<rect x='110' y='30' width='11' height='11' fill='#7f7f7f'/><text x='126' y='40'>quinn's own sockets</text>"
    for (i = 1; i <= count; i++) {
        y = 52 + 42 * (i - 1)
        name = rows[i]
        sub(/^echo /, "", name)
        sub(/, 1$/, ", 1 download", name)
        sub(/, [0-9]+$/, "& downloads", name)
        printf "<text x='10' y='%d'>%s</text>\n", y + 16, name
        bar(rows[i], "mmsg", y, "#1f77b4")
        bar(rows[i], "quinn", y + 14, "#7f7f7f")
    }
    print "</svg>"
}

# Puts the results together in out/report.txt and prints them.
set -eu
LC_ALL=C
export LC_ALL
{
    awk '{ print }' out/lines.txt
    echo "most frequent words:"
    sort -m -k1,1nr -k2,2 out/reduce-am.txt out/reduce-nz.txt | awk 'NR <= 10 { printf "%6d %s\n", $1, $2 }'
    echo "most frequent initials:"
    sort -k1,1nr -k2,2 out/initials-am.txt out/initials-nz.txt | awk 'NR <= 5 { printf "%6d %s\n", $1, $2 }'
} > out/report.txt
awk '{ print }' out/report.txt

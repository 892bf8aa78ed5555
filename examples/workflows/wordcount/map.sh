# Counts the words of part $1; words from a to m go to one file, words from n to z to another.
set -eu
LC_ALL=C
export LC_ALL
awk '{ gsub(/[^A-Za-z]+/, " "); $0 = tolower($0); for (i = 1; i <= NF; i++) print $i }' "out/part-$1.txt" |
    sort | uniq -c > "out/map-$1.txt"
awk '$2 < "n"' "out/map-$1.txt" > "out/map-$1-am.txt"
awk '$2 >= "n"' "out/map-$1.txt" > "out/map-$1-nz.txt"

# Adds up what the four maps counted for the words of group $1 (am or nz), most frequent first.
set -eu
LC_ALL=C
export LC_ALL
awk '{ total[$2] += $1 } END { for (word in total) print total[word], word }' \
    "out/map-1-$1.txt" "out/map-2-$1.txt" "out/map-3-$1.txt" "out/map-4-$1.txt" |
    sort -k1,1nr -k2,2 > "out/reduce-$1.txt"

# Counts how many different words begin with each letter of group $1.
set -eu
LC_ALL=C
export LC_ALL
cut -d ' ' -f 2 "out/reduce-$1.txt" | cut -c 1 | sort | uniq -c > "out/initials-$1.txt"

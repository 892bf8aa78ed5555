# Deals the lines of the text out to four parts, out/part-1.txt to out/part-4.txt.
set -eu
mkdir -p out
awk '{ print > ("out/part-" (NR % 4 + 1) ".txt") }' wordcount/text.txt

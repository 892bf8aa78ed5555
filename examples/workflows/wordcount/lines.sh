# Measures the text itself: lines, words and the longest line.
set -eu
mkdir -p out
awk '{ words += NF; if (length($0) > longest) longest = length($0) }
    END { print NR " lines, " words " words, longest line " longest " characters" }' wordcount/text.txt > out/lines.txt

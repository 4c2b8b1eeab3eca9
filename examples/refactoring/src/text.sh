# cap WORD: the word with a capital letter
cap() { printf '%s' "$1" | awk '{ print toupper(substr($0, 1, 1)) substr($0, 2) }'; }
# caption WORD: the word as a caption
caption() { echo "== $(cap "$1") =="; }

set -e
. src/text.sh
. src/greet.sh
test "$(greet ada)" = 'Hello, Ada!'
test "$(caption notes)" = '== Notes =='

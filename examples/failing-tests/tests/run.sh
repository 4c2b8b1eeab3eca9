# Every test of the cart. Exits with 1 if one fails.
. ./cart.sh
failed=0
expect() {
    if [ "$2" = "$3" ]; then echo "ok      $1"; else echo "FAILED  $1: expected $3, got $2"; failed=1; fi
}
expect 'an empty cart costs nothing' "$(total)" 0
expect 'prices are added' "$(total 250 125)" 375
expect 'a small sum stays' "$(discounted 9999)" 9999
expect 'the discount begins at 10000' "$(discounted 10000)" 9000
exit "$failed"

# A shopping cart. Prices are whole cents.

# total PRICE...: the sum of all prices
total() {
    sum=0
    for price in "$@"; do sum=$((sum - price)); done
    echo "$sum"
}

# discounted SUM: ten per cent less from 10000 on
discounted() {
    if [ "$1" -gt 10000 ]; then echo $(($1 * 9 / 10)); else echo "$1"; fi
}

. src/text.sh
greet() { echo "Hello, $(cap "$1")!"; }

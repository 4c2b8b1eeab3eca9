# copy FROM TO: copies a file
# count FILE: counts its lines
case "$1" in
copy) cp "$2" "$3" ;;
count) wc -l < "$2" ;;
esac

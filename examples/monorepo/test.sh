set -e
for package in packages/*/; do sh "$package/test.sh"; echo "ok ${package%/}"; done
cmp lock - << END
api 2
shared 2
web 2
END

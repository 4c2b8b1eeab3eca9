set -e
cd "$(dirname "$0")"
grep -qx 'version=2' config
grep -q 'shared 2' deps

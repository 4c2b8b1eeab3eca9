set -e
cd "$(dirname "$0")"
grep -qx 'version=2' config

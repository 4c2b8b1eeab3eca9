#!/usr/bin/env bash
# Builds the packages for one target, with checksums. docs/contributing/release.md says how a release is made of them.
#
#   packages/build.sh [--target TRIPLE] [--binary FILE] [--out FOLDER] [archive] [npm] [deb]
#
# Without --binary it makes a release build. On Linux that is a static one (musl) where the toolchain has that target, and
# otherwise one that needs the glibc of this machine or a newer one, which is said. Without kinds it makes all that this
# system can make. Completions and manual pages are printed by the program itself, so each target is built on its own system.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "error: $1" >&2; exit 1; }

target='' binary='' out='target/packages' kinds=''
while [ $# -gt 0 ]; do
    case "$1" in
    --target) target="${2:?--target needs a triple}"; shift 2 ;;
    --binary) binary="${2:?--binary needs a file}"; shift 2 ;;
    --out) out="${2:?--out needs a folder}"; shift 2 ;;
    archive | npm | deb) kinds="$kinds $1"; shift ;;
    *) die "unknown word $1; see the head of this script" ;;
    esac
done

host() { rustc -vV | sed -n 's/^host: //p'; }
of_machine() {
    case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) echo x86_64-unknown-linux-gnu ;;
    Linux-aarch64) echo aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) echo x86_64-apple-darwin ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
    *) die "no package is made for $(uname -s) on $(uname -m)" ;;
    esac
}

if [ -z "$binary" ]; then
    if [ -z "$target" ]; then
        target="$(host)"
        static="${target%-gnu}-musl"
        if [ -d "$(rustc --print sysroot)/lib/rustlib/$static" ]; then
            target="$static"
        elif [ "$static" != "$target-musl" ]; then
            echo "note: $static is not installed (rustup target add $static): this build needs a glibc"
        fi
    fi
    cargo build --release --locked -p aot --bin aot --target "$target"
    binary="${CARGO_TARGET_DIR:-target}/$target/release/aot"
fi
[ -n "$target" ] || target="$(of_machine)"
[ -x "$binary" ] || die "$binary is not a program"

case "$target" in
x86_64-unknown-linux-*) os=linux cpu=x64 deb=amd64 ;;
aarch64-unknown-linux-*) os=linux cpu=arm64 deb=arm64 ;;
x86_64-apple-darwin) os=darwin cpu=x64 deb='' ;;
aarch64-apple-darwin) os=darwin cpu=arm64 deb='' ;;
*) die "no package is made for $target" ;;
esac

if [ -z "$kinds" ]; then
    kinds='archive'
    if command -v npm > /dev/null; then kinds="$kinds npm"; else echo 'note: no npm here, so no npm package'; fi
    if [ -n "$deb" ] && command -v dpkg-deb > /dev/null; then kinds="$kinds deb"; fi
fi

version="$("$binary" --version --json | sed -n 's/.*"version":"\([^"]*\)".*/\1/p')"
[ -n "$version" ] || die "$binary does not say its version"

mkdir -p "$out"
out="$(cd "$out" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# What every package has.
mkdir -p "$work/files/completions"
cp "$binary" "$work/files/aot"
if command -v strip > /dev/null; then strip "$work/files/aot"; fi
chmod 755 "$work/files/aot"
for shell in bash zsh fish; do "$work/files/aot" completions "$shell" > "$work/files/completions/aot.$shell"; done
"$work/files/aot" man "$work/files/man" > /dev/null
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$work/files"

make_archive() {
    local name="aot-$version-$target"
    cp -R "$work/files" "$work/$name"
    tar -C "$work" -czf "$out/$name.tar.gz" "$name"
    made="$made $name.tar.gz"
}

# The wrapper, which is the same everywhere, and the package with the program for this system. Nothing is downloaded and no
# script runs when they are installed: npm chooses the program's package by `os` and `cpu`.
make_npm() {
    local wrapper="$work/npm" system="$work/npm-$os-$cpu"
    mkdir -p "$wrapper" "$system/bin"
    cp -R packages/npm/. "$work/files/man" "$work/files/completions" "$wrapper"
    cp README.md LICENSE-MIT LICENSE-APACHE "$wrapper"
    # npm links the manual pages that are listed when the package is installed for all projects.
    local pages
    pages="$(cd "$wrapper/man" && printf '"man/%s", ' *.1)"
    sed -i.old -e "s/0\.0\.0/$version/g" -e "s|\"man\": \[\]|\"man\": [${pages%, }]|" "$wrapper/package.json"
    rm "$wrapper/package.json.old"
    cp "$work/files/aot" "$system/bin/aot"
    cp LICENSE-MIT LICENSE-APACHE "$system"
    cat > "$system/package.json" << END
{
  "name": "@aot-loop/$os-$cpu",
  "version": "$version",
  "description": "The program aot for $os on $cpu",
  "license": "MIT OR Apache-2.0",
  "os": ["$os"],
  "cpu": ["$cpu"],
  "files": ["bin"]
}
END
    local folder
    for folder in "$wrapper" "$system"; do
        made="$made $(cd "$out" && npm pack --silent --offline --ignore-scripts "$folder" | tail -n 1)"
    done
}

make_deb() {
    [ -n "$deb" ] || die "there is no Debian package for $target"
    local root="$work/deb" share="$work/deb/usr/share" needs='git (>= 1:2.38)' glibc
    # A static build needs none. The newest version that is asked for is the oldest that will do.
    glibc="$(grep -ao 'GLIBC_[0-9][0-9.]*' "$work/files/aot" | sort -Vu | tail -n 1 | sed 's/GLIBC_//' || true)"
    [ -z "$glibc" ] || needs="libc6 (>= $glibc), $needs"
    install -Dm755 "$work/files/aot" "$root/usr/bin/aot"
    install -Dm644 "$work/files/completions/aot.bash" "$share/bash-completion/completions/aot"
    install -Dm644 "$work/files/completions/aot.zsh" "$share/zsh/vendor-completions/_aot"
    install -Dm644 "$work/files/completions/aot.fish" "$share/fish/vendor_completions.d/aot.fish"
    install -d "$share/man/man1"
    cp "$work/files/man"/*.1 "$share/man/man1"
    gzip -9n "$share/man/man1"/*.1
    install -d "$share/doc/aot"
    gzip -9nc CHANGELOG.md > "$share/doc/aot/changelog.gz"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
        printf 'Upstream-Name: aot\n\nFiles: *\nCopyright: the aot authors\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n'
        sed 's/^$/./; s/^/ /' LICENSE-MIT
        printf '\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
    } > "$share/doc/aot/copyright"
    mkdir "$root/DEBIAN"
    cat > "$root/DEBIAN/control" << END
Package: aot
Version: $version
Architecture: $deb
Maintainer: the aot authors <aot@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $needs
Recommends: bubblewrap
Section: devel
Priority: optional
Description: Runs coding agents in a loop until the goal is proven done
 You agree on a goal and on checks that prove it. Agents or commands work on it,
 each in a worktree and a cage of its own, and the loop ends when the program has
 seen the checks pass, or says exactly why it cannot.
END
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +
    dpkg-deb --build --root-owner-group "$root" "$out/aot_${version}_$deb.deb" > /dev/null
    made="$made aot_${version}_$deb.deb"
}

made=''
for kind in $kinds; do "make_$kind"; done

sum() { if command -v sha256sum > /dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
cd "$out"
# shellcheck disable=SC2086 # One word for each file; none has a space in it.
sum $made > "SHA256SUMS-$target"
cat "SHA256SUMS-$target"

# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
# What the tools share: messages, and packages of the distribution.
#
#   say TEXT…              one line of progress on stderr
#   die TEXT…              one line of error, exit 1
#   need GROUP…            make sure that the packages of tools/packages in these groups are there
#
# `need` installs with apt-get where it is: as root, or by sudo. Elsewhere, and where sudo is
# refused, it prints the list and goes on: what is really missing then fails by its own name.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# Names of the packages of some groups of tools/packages.
packages_of() {
    local group
    for group in "$@"; do
        awk -v group="$group" '!/^#/ && $1 == group { for (i = 2; i <= NF; i++) print $i }' \
            "$top/tools/packages"
    done
}

missing_packages() {
    local name
    for name in "$@"; do
        dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed$' ||
            printf '%s\n' "$name"
    done
}

need() {
    local wanted missing as_root=()
    mapfile -t wanted < <(packages_of "$@")
    if ! command -v apt-get >/dev/null; then
        say "this is no Debian or Ubuntu; make sure that these packages' contents are there:"
        printf '  %s\n' "${wanted[@]}" >&2
        return 0
    fi
    mapfile -t missing < <(missing_packages "${wanted[@]}")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
        if ! command -v sudo >/dev/null; then
            say "packages are missing, and there is no sudo; as root, run:"
            printf '  apt-get install --no-install-recommends %s\n' "${missing[*]}" >&2
            return 0
        fi
    fi
    say "installing ${#missing[@]} packages: ${missing[*]}"
    "${as_root[@]}" apt-get -qq update >&2 || say "apt-get update failed; trying with the old lists"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 install "${missing[@]}" >&2 ||
        die "apt-get could not install: ${missing[*]}"
}

# Configure a build tree once, and again when the arguments have changed.
#   setup_tree DIR MESON-ARGUMENT…
setup_tree() {
    local tree=$1
    shift
    if [ -f "$tree/build.ninja" ]; then
        meson configure "$tree" "$@" >/dev/null
    else
        meson setup "$tree" "$top" "$@" >&2
    fi
}

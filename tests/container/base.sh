#!/usr/bin/env bash
# Make a local stand-in for the Dockerfile's base image, where no image registry can be reached.
#
#   base.sh TAG     Debian bookworm (minbase) and a CPython 3.11 in /usr/local, imported as TAG
#
# It has the layout of the official slim image (python, pip, /usr/local first on the PATH), so that the Dockerfile is
# built unchanged. It is not that image: its packages, its digest and its size are its own. docs/container.md says
# which conclusions that allows. PYTHON is an interpreter of 3.11 whose installation can be copied, one built from source.
set -euo pipefail

tag=$1
PYTHON=${PYTHON:-python3}
prefix=$("$PYTHON" -c 'import sys; assert sys.version_info[:2] == (3, 11), sys.version; print(sys.base_prefix)')
[ "$prefix" != /usr ] || { echo "base.sh: $PYTHON is Debian's own and cannot be copied" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# What CPython's extension modules link to, as the official image installs it.
libraries=ca-certificates,libssl3,libffi8,libsqlite3-0,libbz2-1.0,liblzma5,libreadline8,zlib1g,libuuid1,libncursesw6
mmdebstrap --quiet --variant=minbase --include="$libraries,tzdata,libexpat1,netbase" bookworm "$root"

cp -a "$prefix/." "$root/usr/local/"
rm -rf "$root"/usr/local/lib/python3.*/test "$root"/usr/local/lib/libpython*.a "$root"/usr/local/lib/python3.*/config-*/*.a
find "$root"/usr/local/lib/python3.*/site-packages -mindepth 1 -maxdepth 1 ! -name 'pip*' -exec rm -rf {} +
for script in "$root"/usr/local/bin/*; do # their first lines name the place that they were copied from
    if [ -f "$script" ] && [ ! -L "$script" ] && [ "$(head -c2 "$script" | tr -d '\0')" = '#!' ]; then
        sed -i "1s#$prefix/bin#/usr/local/bin#" "$script"
    fi
done
chroot "$root" ldconfig
chroot "$root" /usr/local/bin/python3 -c 'import bz2, ctypes, lzma, sqlite3, ssl'

# A machine behind a proxy trusts certificates that a fresh Debian does not know; the Dockerfile stays free of them.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"

tar -C "$root" -c . | podman import --quiet --change 'CMD ["python3"]' \
    --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' - "$tag"

#!/usr/bin/env bash
# Make a local stand-in for the Dockerfile's base image, where no image registry can be reached.
#
#   base.sh TAG     Debian bookworm with its own Python 3.11, imported as TAG
#
# It offers what the Dockerfile takes from the official slim image (python and pip first on the PATH, nothing to compile
# with), so that the Dockerfile is built unchanged. It is not that image: its packages, its digest and its size are its
# own. docs/deploy.md says which conclusions that allows.
set -euo pipefail

tag=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

mmdebstrap --quiet --variant=minbase --include=ca-certificates,netbase,tzdata,python3,python3-venv,python3-pip bookworm "$root"
ln -s /usr/bin/python3 "$root/usr/local/bin/python"
ln -s /usr/bin/python3 "$root/usr/local/bin/python3"
ln -s /usr/bin/pip3 "$root/usr/local/bin/pip"
rm "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED # the official image's Python is nobody's but the image's
chroot "$root" python -c 'import bz2, ctypes, lzma, sqlite3, ssl, venv'

# A machine behind a proxy trusts certificates that a fresh Debian does not know; the Dockerfile stays free of them.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"

tar -C "$root" -c . | podman import --quiet --change 'CMD ["python3"]' \
    --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' - "$tag"

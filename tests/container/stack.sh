#!/usr/bin/env bash
# Walk docs/deploy.md by its own text: its blocks of shell, one after the other, in a clone of the repository, on
# podman-compose. tests/container/run.sh runs this last, with its engine, its base image and its settings.
#
# `docker` stands for podman here, and `docker compose` for podman-compose, which lacks two things: --wait, and new
# containers for new images. Images come from the local base; PostgreSQL is Debian's, started as the official image's.
set -euo pipefail
COMPOSE='podman-compose==1.5.0 --hash=sha256:f0b9d35f4da1b309172adf208a5cb7a882b532a834c2202666c1988b6f147546'
site=$scratch/site
export BUILDAH_FORMAT=docker HTTPS_PORT=${HTTPS_PORT:-8443} scratch BASE PROXY_BASE key=

docker() {
    [ "$1" = compose ] || { podman "$@"; return; }
    local compose=("$scratch/venv/bin/podman-compose" '--podman-build-args=--isolation chroot --network host')
    case $2 in
    build) "${compose[@]}" build --build-arg "PYTHON_IMAGE=$BASE" --build-arg "DEBIAN_IMAGE=$PROXY_BASE" ;;
    up)
        local word services=()
        for word in "${@:3}"; do [[ $word = --* ]] || services+=("$word"); done
        "${compose[@]}" up --detach --force-recreate "${services[@]}" && healthy "${services[@]}"
        ;;
    *) "${compose[@]}" "${@:2}" ;;
    esac 2>>"$scratch/compose.log"
}
healthy() { # the engine has no timer here, so it is asked
    local name
    [ $# -gt 0 ] || set -- database darrm proxy
    for name in "$@"; do
        for _ in $(seq 120); do
            ! podman healthcheck run "darrm_${name}_1" >/dev/null 2>&1 || continue 2
            sleep 0.5
        done
        podman logs --tail 30 "darrm_${name}_1" >&2
        return 1
    done
}
export -f docker healthy

told() { printf -- '- deploy.md: %s\n' "$*"; }
fail() { printf 'stack: %s\n' "$*" >&2; tail -n 40 "$scratch/compose.log" >&2; exit 1; }

# Run the page's one block of shell that has the given text.
block() {
    local code
    code=$(awk -v text="$1" '/^```/ { if (inside && index(code, text)) { printf "%s", code; found++ }; inside = /^```sh$/; code = ""; next }
        inside { code = code $0 "\n" }
        END { exit found != 1 }' "$site/docs/deploy.md") || fail "the page has none or several blocks with '$1'"
    code=${code//darrm_…/$key}
    (cd "$site" && exec bash -euo pipefail -c "${code//localhost\//localhost:$HTTPS_PORT/}") || fail "this ended with an error: $code"
}
new_certificate() {
    block 'openssl req'
    (cd "$site" && mv secrets/tls.crt fullchain.pem && mv secrets/tls.key privkey.pem)
}
waited() { # until a command succeeds, for as long as a busy machine may take
    for _ in $(seq 60); do ! "$@" 2>/dev/null || return 0; sleep 1; done
    "$@"
}
refused() { ! ask kept; }
ask() { DARRM_URL=https://localhost:$HTTPS_PORT DARRM_KEY=$key SSL_CERT_FILE=$site/fullchain.pem "$PYTHON" tests/container/ask.py "$1"; }

clean() {
    (cd "$site" && docker compose down --volumes) >/dev/null 2>&1 || true
}
trap clean EXIT

{
    echo "$COMPOSE"
    awk '/^[a-z]/ { wanted = /^(pyyaml|python-dotenv)==/ } wanted' requirements.lock
} >"$scratch/compose.txt"
"$scratch/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r "$scratch/compose.txt"
git clone --quiet . "$scratch/origin"
if [[ $BASE = localhost/* ]]; then
    buildah bud --quiet --format docker --isolation chroot --network host --tag localhost/postgres:test --build-arg "BASE=$BASE" \
        --file tests/container/postgres.Dockerfile tests/container >"$scratch/compose.log" 2>&1 || fail 'PostgreSQL has no image'
    sed -i 's|image: .*/postgres:.*|image: localhost/postgres:test|' "$scratch/origin/compose.yaml"
fi
# A limit of its own replaces all of the engine's, and those that podman then sets need a privilege.
sed -i 's/{ nofile: 16384 }/{ nofile: 16384, nproc: 9000 }/' "$scratch/origin/compose.yaml"
commit() { git -C "$scratch/origin" -c user.name=stack -c user.email=stack@example.org commit --quiet --all --message "$1"; }
commit 'what this machine has'
git clone --quiet "$scratch/origin" "$site"

new_certificate
key=$(block 'keys add me' | grep -Eo 'darrm_[0-9a-f]{8}_[A-Za-z0-9_-]{43}') || fail 'it prints no key'
told 'secrets made, images built'
block 'docker compose up --detach --wait
curl' | grep -q '"id":' || fail 'no γ and no job'
ask solved
ask kept
told 'it starts, and answers by TLS with a key'

block 'keys revoke' >"$scratch/keys_block" # its own key was added, listed and revoked
other=$(grep -Eo 'darrm_[0-9a-f]{8}_[A-Za-z0-9_-]{43}' "$scratch/keys_block")
ask kept
key=$other waited refused || fail 'a key that was revoked is still valid'
(cd "$site" && podman run --rm --user 0 --volume "$PWD/secrets/keys:/made" darrm-opt keys add later --file /made/keys.json) \
    >"$scratch/later" 2>/dev/null
key=$(cat "$scratch/later") waited ask kept
told 'a key that is added or revoked later is, without a restart'
[ "$(stat --format '%a' "$site/secrets")" = 700 ] || fail 'other users may enter the folder of the secrets'

old=$(openssl x509 -noout -fingerprint -in "$site/fullchain.pem")
new_certificate
block 'docker compose restart proxy'
waited ask kept # trusts the new certificate alone
[ "$old" != "$(openssl x509 -noout -fingerprint -in "$site/fullchain.pem")" ] || fail 'the certificate is the same'
told 'a new certificate is served after a restart of the proxy'

block 'tar -czf'
(cd "$site" && docker compose exec -T database psql --quiet --username darrm --command 'DROP SCHEMA public CASCADE; CREATE SCHEMA public' darrm)
block '--if-exists' | tee "$scratch/check"
healthy
ask kept
told "answers that were lost are restored: $(tail -n 1 "$scratch/check")"

block 'ALTER ROLE'
healthy
ask kept
told 'the database has another password'

block 'docker volume rm'
ask kept
told 'answers were moved to a database with an empty volume'

sed -i 's/^__version__ = .*/__version__ = "999.0.0"/' "$scratch/origin/darrm_opt/_version.py"
commit 'the next release'
block 'git pull'
(cd "$site" && docker compose exec -T darrm darrm --version) | grep -qF 999.0.0 || fail 'the release is the old one'
told 'upgraded to the next release'

block '"$image:previous" "$image"'
! (cd "$site" && docker compose exec -T darrm darrm --version) | grep -qF 999.0.0 || fail 'the release is the new one'
ask kept
told 'rolled back to the release from before'

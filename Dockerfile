# The service in an image: `docker build -t darrm .`, then, for this machine alone and without keys,
# `docker run -p 127.0.0.1:8000:8000 -v darrm:/cache -e DARRM_PUBLIC=true darrm`.
# The ways to run it, and what of this file was tested: docs/deploy.md.

# A tag moves; a digest does not. Another base, such as a newer one: --build-arg PYTHON_IMAGE=…@sha256:…
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

# ------------------------------------------------------------------------ the first stage builds and is thrown away
FROM ${PYTHON_IMAGE} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

# What the service needs and nothing else, each file held against its hash. Its own layer: it changes rarely.
COPY requirements-service.lock /src/
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/darrm \
    && pip --python /opt/darrm/bin/python install --only-binary :all: --require-hashes -r /src/requirements-service.lock \
    && find /opt/darrm -type d -name tests -prune -exec rm -r {} +
# Of NumPy and SciPy not their tests.

# The build backend comes from a lock too, so that building downloads nothing unpinned.
COPY requirements-run.lock /src/
RUN --mount=type=cache,target=/root/.cache/pip \
    awk '/^[a-z]/ { wanted = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/ } wanted' \
        /src/requirements-run.lock >/src/requirements-build.lock \
    && pip install --only-binary :all: --require-hashes -r /src/requirements-build.lock

# The separation kernel is compiled where there is a C compiler. Without one the image gives the same answers, slower.
# hadolint ignore=DL3008
RUN { apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev; } \
        || echo 'no C compiler to be had: the image searches by NumPy' >&2; \
    rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY darrm darrm
COPY darrm_opt darrm_opt
COPY solver_cache solver_cache
COPY darrm_client darrm_client
COPY api api
RUN python -m hatchling build -t wheel \
    && pip --python /opt/darrm/bin/python install --no-cache-dir --no-deps --no-index dist/*.whl \
    && /opt/darrm/bin/python -c 'import darrm, psycopg, scipy.special; darrm.create_app()' \
    && install -d -o 10001 -g 10001 /made/cache
# Its mode is stated: that of the checkout depends on the umask of whoever made it.
COPY --chmod=755 deploy/health.sh /opt/darrm/bin/health

# --------------------------------------------------------------------------------------------- the image that runs
FROM ${PYTHON_IMAGE}

ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="darrm-opt" \
      org.opencontainers.image.description="Optimal private majority votes: certified noise functions over HTTP." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Byte code was compiled when it was installed, and the root file system may be read-only. One thread for each solver
# process: the processes are the parallel part, and a container sees every core of its host.
ENV PATH=/opt/darrm/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    DARRM_CACHE_URL=sqlite:////cache/darrm.sqlite3

COPY --from=build /opt/darrm /opt/darrm
# The only folder that is written, beside /tmp. A new volume takes its owner from here.
COPY --from=build --chown=10001:10001 /made/cache /cache

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /tmp
VOLUME /cache
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["health", "8000", "/healthz"]
ENTRYPOINT ["darrm"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]

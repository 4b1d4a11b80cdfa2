# A stand-in for the official image of PostgreSQL: Debian's, which makes its database when it first starts.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq && mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["/bin/sh", "-ec", "\
    if [ ! -s $PGDATA/PG_VERSION ]; then \
        initdb --username $POSTGRES_USER --pwfile $POSTGRES_PASSWORD_FILE --auth-local trust --auth-host scram-sha-256; \
        echo 'host all all all scram-sha-256' >>$PGDATA/pg_hba.conf; \
        echo CREATE DATABASE $POSTGRES_DB | postgres --single postgres; \
    fi; \
    exec postgres -c listen_addresses='*'"]

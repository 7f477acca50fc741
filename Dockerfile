# An image that contains only the server: it has no shell and no package manager, and does not run as root.
#
#   docker build --tag rowhouse .
#
# docs/installing.md describes how to run it, and the settings that a container needs.

# Keeps only the manifests, with an empty program in place of each library, program, example and build script. A change
# of other files does not change the result, so the layer with the compiled dependencies below stays valid.
FROM rust:1.95-alpine AS manifests
WORKDIR /source
COPY . .
RUN find . -type f ! -name Cargo.toml ! -name Cargo.lock ! -path '*/src/lib.rs' ! -name main.rs ! -name build.rs \
        ! -path '*/examples/*.rs' -delete \
    && find . -name '*.rs' -exec sh -c 'for file; do echo "#![allow(missing_docs)] fn main() { }" >"$file"; done' - {} + \
    && find . -type d -empty -delete

# On Alpine, the compiler targets musl, so the program is statically linked.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache ca-certificates gcc musl-dev
WORKDIR /source
COPY --from=manifests /source .
RUN cargo build --profile dist --locked --package rowhouse-tables
COPY . .
# The sources can be older than the empty programs, and Cargo compares times.
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
    && cargo build --profile dist --locked --package rowhouse-tables && mkdir /empty /links && ln -s rowhouse /links/azurite

FROM scratch
# Required for HTTPS connections to the issuers of bearer tokens and to other services.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /source/target/dist/rowhouse /usr/bin/rowhouse
# Tools that start the emulator run a program with this name. It behaves like `rowhouse azurite`; in this image, it
# serves only tables.
COPY --from=build /links/ /usr/bin/
# A volume inherits the owner of the folder that it covers.
COPY --from=build --chown=10002:10002 /empty /data

# The ID is numeric, so that Kubernetes can verify that the user is not root.
USER 10002:10002
# Without --store, the data is in /data/rowhouse-data.
WORKDIR /data
VOLUME /data
# A container's loopback address is unreachable from outside, so the server listens on all addresses. It then starts
# only with configured accounts, and with TLS or an explicit flag; nothing in this image weakens this protection. The
# admin listener, which the health check uses, stays inside the container by default.
ENV ROWHOUSE_LISTEN=0.0.0.0:10002 ROWHOUSE_ADMIN=127.0.0.1:10003
EXPOSE 10002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/rowhouse", "health"]
ENTRYPOINT ["/usr/bin/rowhouse"]
CMD ["serve"]

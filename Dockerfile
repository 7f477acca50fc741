# An image with the server and nothing else: no shell, no package manager, no user but its own.
#
#   docker build --tag rowhouse .
#
# docs/installing.md says how to run it, and which settings a container needs.

# On Alpine the compiler's own target is musl, so the program is static, with ring and mimalloc built in.
FROM rust:1.90-alpine AS build
RUN apk add --no-cache ca-certificates gcc musl-dev
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package rowhouse && mkdir /empty

FROM scratch
# For the issuers of bearer tokens, and for copies from services that speak HTTPS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /source/target/release/rowhouse /usr/bin/rowhouse
# A volume takes over the owner of the folder that it covers.
COPY --from=build --chown=10002:10002 /empty /data

# By number, so that Kubernetes can see that it is not root.
USER 10002:10002
# Without --store, the data are in /data/rowhouse-data.
WORKDIR /data
VOLUME /data
# A container's own loopback is reachable by nobody. Beyond it the server starts only with accounts of its own, and with TLS
# or a flag that says that something in front has it: nothing in this image weakens that.
# What the health check asks stays inside of the container, unless it is told otherwise.
ENV ROWHOUSE_LISTEN=0.0.0.0:10002 ROWHOUSE_ADMIN=127.0.0.1:10003
EXPOSE 10002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/usr/bin/rowhouse", "health"]
ENTRYPOINT ["/usr/bin/rowhouse"]
CMD ["serve"]

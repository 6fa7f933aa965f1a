# The same image as scripts/image makes, for one architecture, by a container runtime. The programs are linked statically, so that the
# image needs no distribution underneath:
#
#   docker build --tag egress-by-name:0.1.0 --build-arg SOURCE_COMMIT="$(git rev-parse --short=12 HEAD)" .
ARG RUST=1.95
FROM docker.io/library/rust:${RUST}-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends jq
WORKDIR /src
COPY . .
# What --version says: the folder .git is not here.
ARG SOURCE_COMMIT=""
RUN scripts/image --root /out

FROM scratch
ARG VERSION=0.1.0
ARG SOURCE_COMMIT=""
LABEL org.opencontainers.image.title="egress-by-name" \
      org.opencontainers.image.description="Egress by name for OVN, with stock CoreDNS: the collector, the ovn-writer and the policy-writer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${SOURCE_COMMIT}"
COPY --from=build /out/ /
ENV PATH=/usr/local/bin
USER 65532:65532
CMD ["collector", "--help"]

# Both programs, and nothing else: they are linked statically, so that the image needs no distribution underneath. Built by
# scripts/image; by hand: docker build --tag egress-by-name:0.1.0 .
ARG RUST=1.95
FROM docker.io/library/rust:${RUST}-bookworm AS build
WORKDIR /src
COPY . .
# What --version says: the folder .git is not here.
ARG SOURCE_COMMIT=""
RUN scripts/image --programs /out

FROM scratch
ARG VERSION=""
ARG SOURCE_COMMIT=""
LABEL org.opencontainers.image.title="egress-by-name" \
      org.opencontainers.image.description="Egress by name for OVN, with stock CoreDNS: the collector and the ovn-writer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${SOURCE_COMMIT}"
COPY --from=build /out/ /usr/local/bin/
COPY LICENSE /LICENSE
ENV PATH=/usr/local/bin
USER 65532:65532
CMD ["collector", "--help"]

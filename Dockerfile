# syntax=docker/dockerfile:1
#
# Two images from one file: docker build --target manager . and docker build --target proxy .
# Each is one static binary, run as a user without a name; it writes nothing and needs no shell. Without Docker, `make image`
# makes the same.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=unknown
WORKDIR /src
# The modules change seldom, the sources often: downloads stay in a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY internal internal
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/ ./cmd/manager ./cmd/proxy

# Nothing else is needed: the proxy brings certificate authorities with it.
FROM scratch AS manager
ARG VERSION=unknown
LABEL org.opencontainers.image.title=spillway-manager \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.source=https://github.com/spillway-dev/spillway \
      org.opencontainers.image.licenses=Apache-2.0
USER 65532:65532
COPY --from=build --chmod=555 /out/manager /manager
ENTRYPOINT ["/manager"]

FROM scratch AS proxy
ARG VERSION=unknown
LABEL org.opencontainers.image.title=spillway-proxy \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.source=https://github.com/spillway-dev/spillway \
      org.opencontainers.image.licenses=Apache-2.0
USER 65532:65532
COPY --from=build --chmod=555 /out/proxy /proxy
ENTRYPOINT ["/proxy"]

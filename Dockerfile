# Dockerfile -- opmeter in a container: `docker build -t opmeter .`, then
# `docker run --rm -v "$PWD:/work" opmeter run model.onnx`.
#
# The first stage is a bare Debian that runs script/package, the second one what a user has: Debian and
# the packages. tests/install/dockerfile.py does the same without Docker.
FROM debian:bookworm-slim AS build
COPY . /src
WORKDIR /src
RUN apt-get update && script/bootstrap --package && script/package deb

FROM debian:bookworm-slim
COPY --from=build /src/build/package/*.deb /tmp/packages/
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 /tmp/packages/opmeter_*.deb \
        /tmp/packages/libopmeter0_*.deb /tmp/packages/python3-opmeter_*.deb \
    && rm -rf /tmp/packages /var/lib/apt/lists/*
WORKDIR /work
EXPOSE 8080
ENTRYPOINT ["opmeter"]
CMD ["help"]

# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# aclgrad beside a compiler, for systems on which it does not build: docs/guides/install.md.
ARG SYSTEM=debian:12
FROM $SYSTEM AS build
RUN apt-get update -qq && apt-get install -qq --no-install-recommends \
    cmake g++ ninja-build libtbb-dev libhwy-dev libfmt-dev nlohmann-json3-dev
COPY . /source
RUN cmake -S /source -B /build -G Ninja -DACLGRAD_TESTS=OFF -DACLGRAD_BENCHMARKS=OFF -DACLGRAD_BUNDLE=ON && \
    cmake --build /build && cmake --install /build --strip

FROM $SYSTEM
RUN apt-get update -qq && apt-get install -qq --no-install-recommends cmake g++ make && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/aclgrad /opt/aclgrad
ENV ASCEND_HOME_PATH=/opt/aclgrad ASCEND_TOOLKIT_HOME=/opt/aclgrad ASCEND_OPP_PATH=/opt/aclgrad/opp \
    LD_LIBRARY_PATH=/opt/aclgrad/lib64
WORKDIR /work

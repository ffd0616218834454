# A broker as a container. `docker build -t tandem .` in a checkout; compose.yaml runs two of them behind a proxy.
FROM python:3.13-slim AS build
WORKDIR /checkout
RUN python -m venv /opt/tandem
ENV PATH=/opt/tandem/bin:$PATH
COPY requirements.txt requirements-extras.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt -r requirements-extras.txt
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY tools/distribution.py tools/
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
# The user who owns the repositories that are mounted: git refuses those of others.
ARG UID=1000
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid "$UID" --create-home tandem \
 && install --directory --owner tandem --mode 700 /data /shared
COPY --from=build /opt/tandem /opt/tandem
ENV PATH=/opt/tandem/bin:$PATH \
    TANDEM_AUTH=token \
    TANDEM_CHECKS_AT_ONCE=0 \
    TANDEM_DATA_DIR=/data \
    TANDEM_HOST=0.0.0.0
USER tandem
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s CMD ["tandem", "status"]
ENTRYPOINT ["tandem"]
CMD ["up"]

# The image of a project of yours: copy this file into it as `Dockerfile`, next to definitions.py and the settings.
#
#   docker build --build-arg BASE=registry.example.com/ds-dagster:0.1.0 -t registry.example.com/pipelines:7 .
ARG BASE=ds-dagster:0.1.0
FROM ${BASE}
COPY definitions.py *.toml /project/
COPY sql /project/sql
# and what definitions.py and your functions import

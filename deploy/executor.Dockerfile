# Preview, never built by a test: executors that Spark starts as pods (overlays/spark-on-kubernetes). They need Spark's own
# entry point, and Python, packages and project where the engine has them.
#
#   docker build -f deploy/executor.Dockerfile --build-arg BASE=registry.example.com/pipelines:0.1.0 \
#     -t registry.example.com/pipelines-executor:0.1.0 deploy
ARG SPARK=4.2.0
ARG BASE=ds-dagster-example:0.1.0

FROM apache/spark:${SPARK} AS spark

FROM ${BASE}
COPY --from=spark /opt/entrypoint.sh /opt/entrypoint.sh
ENV SPARK_HOME=/opt/ds/lib/python3.11/site-packages/pyspark
ENTRYPOINT ["/opt/entrypoint.sh"]

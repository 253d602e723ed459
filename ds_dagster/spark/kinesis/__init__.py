"""Amazon Kinesis for Spark: a streaming source and sink as a Python data source (``ds_kinesis``).

``source`` and ``sink`` use Spark; all other modules are plain Python, also used for administration and printing.
"""

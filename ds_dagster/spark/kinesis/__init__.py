"""Amazon Kinesis for Spark: a streaming source and sink as a Python data source (``ds_kinesis``).

``source`` and ``sink`` know Spark; every other module is plain Python and serves administration and printing as well.
"""

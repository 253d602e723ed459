"""The functions of the dialect, one record each: signature, meaning on Spark and in questions, text, examples."""

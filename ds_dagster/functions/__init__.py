"""The functions of the dialect, a record each: signature, meaning on Spark and in questions, text, examples."""

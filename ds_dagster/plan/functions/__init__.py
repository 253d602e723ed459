"""The functions of the dialect: signature, type of the result, meaning."""

"""The grammar of the dialect: recursive descent, one file per clause."""

"""One layout for SQL files, made from tokens: what a file says does not change."""

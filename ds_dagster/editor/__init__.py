"""SQL files in an editor: a language server (``ds lsp``) over the compiler. It shows what `ds check` says while a file
is being written, types of relations and columns, the meaning of functions and properties, and completes names."""

"""What is answered to a statement that is not the dialect: known mistakes, other dialects, their rewriting."""

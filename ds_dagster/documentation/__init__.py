"""The pages of the documentation as the package knows them: their addresses, and conditions explained."""

"""Questions over what queries left out, and over versions beside each other."""

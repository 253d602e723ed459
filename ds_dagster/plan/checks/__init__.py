"""What may not run, and what is worth a warning: rules over bound plans."""

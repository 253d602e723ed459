"""What a project needs of a machine: cores, memory and disk, from its plans and the load that is expected."""

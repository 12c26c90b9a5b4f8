"""Java in this process: starting its virtual machine, and crossing to it."""

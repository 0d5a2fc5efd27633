"""From the cells of a table to numbers."""

"""People who rate items, and very many small fits of their ratings side by side: the engine of 003's experiments."""

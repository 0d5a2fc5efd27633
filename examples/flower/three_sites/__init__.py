"""corank over Flower: three sites that keep their data. Folders as `corank federated init` makes them."""

"""Starting generation as people do: alone, by torchrun, by accelerate; and looking at what it left."""

MODULE = "h2htalk_datasets.generation"

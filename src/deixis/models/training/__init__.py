"""Training of all models: settings, the runner that a `ModelSpec` drives, the training loop and its run directories."""

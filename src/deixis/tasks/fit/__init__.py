"""`deixis train`: from a data set directory to a bundle, one module for each kind of model."""

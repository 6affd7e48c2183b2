"""The scores of models on data sets, in the order in which the evaluation wants them."""

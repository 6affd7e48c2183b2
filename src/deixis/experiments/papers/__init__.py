"""The tables of the four papers: figures as published, and the recipes of our own."""

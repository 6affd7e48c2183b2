"""Normalized canonical correlation analysis (CCA), the model of Flickr30k Entities (section 3).

To read the package: `canonical` (the algorithm), `model` (`CCA`, and the
stacked auxiliary embedding), `training`, `spec` (settings) and ``presets.toml`` (the rows of Table 3). Eq. 1 and 2, the
combined distances, are in `deixis.models.matching.combined`.
"""

"""Image encoders, region proposals, feature maps and the feature cache of data sets.

An encoder turns a decoded photo into a `FeatureMap`, from which the vector of any region is pooled, so each photo is
encoded once. torch and OpenCV are imported on use.
"""

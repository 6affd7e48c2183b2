"""From pixels to numbers: encoders, proposals and the store of what they made.

Decoded photos come in; `FeatureMap`s, from which any region's vector is pooled, and `Proposals` go out. An encoder
sees a photo once. May import `data` and the floors below it; torch and OpenCV are imported only where they are used.
"""
